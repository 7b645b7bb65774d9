//go:build !unix

package h1

// stay reads plainly on this platform.
type stay struct {
	c     *conn
	on    bool
	after func()
	left  left
}

func (s *stay) open(c *conn) { s.c = c }

func (s *stay) read() error {
	n, err := s.c.link.nc.Read(s.c.link.buf)
	if s.c.link.w = n; n > 0 {
		err = nil
	}
	return err
}
