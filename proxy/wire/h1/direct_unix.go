//go:build unix

package h1

import (
	"net"
	"syscall"
)

// direct sends a request and waits for the answer in one stay with the runtime's poller. In the order look, write, wait, read it makes as many system calls as
// writing and reading do (a plain read also looks before it waits), and the look tells whether the connection is stale at the last
// moment before it is used. The zero value is ready.
type direct struct {
	raw   syscall.RawConn
	turn  func(fd uintptr) bool
	tried bool

	phase   directPhase
	out     *outlet
	in      []byte
	written int
	n       int
	err     error
}

type directPhase uint8

const (
	looking directPhase = iota
	stale               // somebody sent something or closed: nothing was written
	writing             // not all could be written at once, or err says why
	reading             // all is written
)

// open reports whether the connection can be used so.
func (d *direct) open(nc net.Conn) bool {
	if d.tried {
		return d.raw != nil
	}
	d.tried = true
	conn, ok := nc.(*net.TCPConn) // others may do more in Read and Write than the kernel does
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	d.raw, d.turn = raw, d.take
	return true
}

// exchange writes what out holds, gives its buffers back as soon as that is done, and reads what comes into in. The phase says how far it got: when reading, n and err are those of the read.
func (d *direct) exchange(out *outlet, in []byte) {
	d.phase, d.out, d.in, d.written, d.n, d.err = looking, out, in, 0, 0, nil
	if err := d.raw.Read(d.turn); err != nil {
		d.err = err
	}
	d.out, d.in = nil, nil
}

// take is called when the connection may be ready; true ends the stay.
func (d *direct) take(fd uintptr) bool {
	n, err := readOnce(int(fd), d.in)
	switch {
	case d.phase == reading:
		d.n, d.err = max(n, 0), err
		if err == syscall.EAGAIN { //nolint:errorlint // a bare errno
			d.err = nil
			return false
		}
		return true
	case err != syscall.EAGAIN: //nolint:errorlint // a bare errno
		d.phase = stale
		return true
	}
	d.phase = writing
	for d.written < len(d.out.out) {
		n, err = writeOnce(int(fd), d.out.out[d.written:])
		if err != nil {
			if err != syscall.EAGAIN { //nolint:errorlint // a bare errno
				d.err = err
			}
			return true
		}
		d.written += n
	}
	d.phase = reading
	d.out.close(false)
	return false
}
