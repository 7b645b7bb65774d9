//go:build unix

package h1

import (
	"errors"
	"net"
	"syscall"
)

// socket looks at what the kernel has for a connection without waiting and without taking it. The zero value is ready.
type socket struct {
	raw    syscall.RawConn
	look   func(fd uintptr)
	tried  bool
	n      int
	err    error
	oneBit [1]byte
}

// peek reports whether bytes wait to be read, and whether the other side has closed or reset the connection.
func (s *socket) peek(nc net.Conn) (waiting, gone bool) {
	if !s.tried {
		s.open(nc)
	}
	if s.raw == nil {
		return false, false
	}
	s.n, s.err = 0, syscall.EAGAIN
	if err := s.raw.Control(s.look); err != nil {
		return false, true
	}
	switch {
	case s.err == nil:
		return s.n > 0, s.n == 0
	case errors.Is(s.err, syscall.EAGAIN), errors.Is(s.err, syscall.EINTR):
		return false, false
	}
	return false, true
}

func (s *socket) open(nc net.Conn) {
	s.tried = true
	conn, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	s.raw = raw
	s.look = func(fd uintptr) {
		s.n, _, s.err = syscall.Recvfrom(int(fd), s.oneBit[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	}
}
