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
