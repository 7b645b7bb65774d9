package h1

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsent is the number of bytes written to a connection that the other side has not confirmed.
func unsent(nc net.Conn) int {
	conn, ok := nc.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0
	}
	n := 0
	ask := func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }
	if raw.Control(ask) != nil || err != nil {
		return 0
	}
	return n
}

// hungUp reports, without waiting, whether the other side has closed or reset a connection, even when bytes wait in front of that.
func hungUp(s *socket, nc net.Conn) bool {
	if s.raw == nil {
		s.open(nc)
	}
	if s.raw == nil {
		return false
	}
	events := [1]unix.PollFd{{Events: unix.POLLRDHUP}}
	ask := func(fd uintptr) {
		events[0].Fd = int32(fd)
		if n, err := unix.Poll(events[:], 0); err != nil || n == 0 {
			events[0].Revents = 0
		}
	}
	if s.raw.Control(ask) != nil {
		return true
	}
	return events[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
}
