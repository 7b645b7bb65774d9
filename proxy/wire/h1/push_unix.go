//go:build unix

package h1

import (
	"net"
	"syscall"
)

// push writes to a plain connection by system calls of our own, which cost less than those of package net since they need not tell the
// scheduler: a socket that does not block is never long in the kernel. The zero value is ready.
type push struct {
	raw   syscall.RawConn
	turn  func(fd uintptr) bool
	tried bool

	p   []byte
	n   int
	err error
}

func (w *push) write(nc net.Conn, p []byte) (int, error) {
	if !w.tried {
		w.open(nc)
	}
	if w.raw == nil {
		return nc.Write(p)
	}
	w.p, w.n, w.err = p, 0, nil
	err := w.raw.Write(w.turn)
	w.p = nil
	if err == nil {
		err = w.err
	}
	return w.n, err
}

func (w *push) open(nc net.Conn) {
	w.tried = true
	tcp, ok := nc.(*net.TCPConn) // others do more in Write than the kernel does
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		w.raw, w.turn = raw, w.some
	}
}

// some is called when the connection may be writable; true ends the writing.
func (w *push) some(fd uintptr) bool {
	for w.n < len(w.p) {
		n, err := writeOnce(int(fd), w.p[w.n:])
		if err == syscall.EAGAIN { //nolint:errorlint // a bare errno
			return false
		}
		if err != nil {
			w.err = err
			return true
		}
		w.n += n
	}
	return true
}
