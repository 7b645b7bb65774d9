package engine

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// backlogTime bounds how long accept is given to take what waits. It takes a moment, unless clients connect faster than that.
const backlogTime = time.Second

// stop closes the listener as soon as every connection that clients have made is accepted: those that wait in the kernel would be reset.
func (s *socket) stop() {
	defer s.listener.Close()
	if !s.started {
		return
	}
	conn, ok := s.listener.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(backlogTime); waits(raw) && time.Now().Before(end); {
		<-tick.C
	}
}

// waits reports whether a connection waits to be accepted.
func waits(raw syscall.RawConn) bool {
	ready := false
	err := raw.Control(func(fd uintptr) {
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(events, 0)
		ready = err == nil && n > 0 && events[0].Revents&unix.POLLIN != 0
	})
	return err == nil && ready
}
