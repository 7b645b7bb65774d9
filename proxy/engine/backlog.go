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
	for end := time.Now().Add(backlogTime); !s.refuse(raw) && time.Now().Before(end); {
		<-tick.C
	}
}

// refuse makes the kernel refuse connections, unless one waits to be accepted. Close alone does so only when accept has let go, which takes
// long enough for somebody to connect.
func (s *socket) refuse(raw syscall.RawConn) bool {
	done := true
	_ = raw.Control(func(fd uintptr) { // a listener that is closed refuses
		events := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(events, 0); err == nil && n > 0 && events[0].Revents&unix.POLLIN != 0 {
			done = false
			return
		}
		s.stopping.Store(true)
		_ = unix.Shutdown(int(fd), unix.SHUT_RDWR) // where listeners have no shutdown, Close has to do
	})
	return done
}
