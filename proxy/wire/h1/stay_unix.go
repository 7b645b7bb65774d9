//go:build unix

package h1

import (
	"io"
	"net"
	"syscall"
	"time"
)

// stay serves simple exchanges, those without a request body or an upgrade, inside one stay with the runtime's poller. A plain read
// asks the kernel before it waits, nearly always in vain; in a stay the poller remembers whether something came since
// the last read, so that waiting comes first. Only an end that came together with a request is not told of again, so the first wait after an exchange is short
// and a plain look follows it. Nobody may read from or close the connection during an exchange in a stay: exchanges that
// need to are left to the connection, and sever waits.
type stay struct {
	c    *conn
	raw  syscall.RawConn
	turn func(fd uintptr) bool

	on    bool   // an exchange runs inside
	after func() // what waits until the stay is over
	left  left
	err   error
}

// open prepares stays on a plain connection; others do more in Read than the kernel does.
func (s *stay) open(c *conn) {
	s.c = c
	tcp, ok := c.link.nc.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	s.raw, s.turn = raw, s.serve
}

// read waits for bytes into the empty buffer and, where it can, serves what they ask for. Without an error, with nothing left and with an
// empty buffer, the server has begun to drain.
func (s *stay) read() error {
	if s.raw == nil {
		n, err := s.c.link.nc.Read(s.c.link.buf)
		if s.c.link.w = n; n > 0 {
			err = nil
		}
		return err
	}
	s.err = nil
	err := s.raw.Read(s.turn)
	if s.after != nil {
		s.after()
		s.after = nil
	}
	if err == nil {
		err = s.err
	}
	return err
}

// serve is called when the connection may be readable; true ends the stay.
func (s *stay) serve(fd uintptr) bool {
	c := s.c
	n, err := readOnce(int(fd), c.link.buf)
	switch {
	case err == syscall.EAGAIN: //nolint:errorlint // a bare errno
		return false
	case err == nil && n == 0:
		err = io.EOF
	}
	if err != nil {
		s.err = err
		return true
	}
	c.link.w = n
	if n == len(c.link.buf) || headEnd(c.link.buf[:n], 0) == 0 { // there may be more, of which the poller has told already
		return true
	}
	c.idle.Store(false)
	s.on = true
	s.left = s.exchange()
	s.on = false
	if s.left != nothing {
		return true
	}
	c.renew()
	if c.link.r != c.link.w { // the next request is there already
		return true
	}
	c.glance = true
	c.since = time.Now()
	c.rest(c.since)
	return c.server.draining.Load()
}

// exchange begins the exchange whose head is in the buffer and, when it is a simple one, goes through with it.
func (s *stay) exchange() left {
	c := s.c
	if !c.begin() {
		return over
	}
	if c.body != nil || c.asked.upgrade != "" {
		return begun
	}
	c.exchange()
	if !c.finish() {
		return over
	}
	return nothing
}
