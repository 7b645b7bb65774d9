package h1

import (
	"errors"
	"net"
	"sync"
	"time"
)

// tunnel is a connection after an upgrade. Read yields first what was read ahead.
type tunnel struct {
	net.Conn
	ahead []byte
	once  sync.Once
	done  chan struct{} // closed by Close
}

// newTunnel takes over the connection of l.
func newTunnel(l *link) *tunnel {
	t := &tunnel{Conn: l.nc, done: make(chan struct{})}
	t.ahead = append(t.ahead, l.buffered()...)
	l.buf, l.r, l.w = nil, 0, 0
	_ = l.nc.SetDeadline(time.Time{}) // a connection that cannot have one has none
	return t
}

// Read reads what was read ahead, then from the connection.
func (t *tunnel) Read(p []byte) (int, error) {
	if len(t.ahead) > 0 {
		n := copy(p, t.ahead)
		if t.ahead = t.ahead[n:]; len(t.ahead) == 0 {
			t.ahead = nil
		}
		return n, nil
	}
	return t.Conn.Read(p)
}

// CloseWrite ends sending and goes on reading.
func (t *tunnel) CloseWrite() error {
	if !closeWrite(t.Conn) {
		return errors.New("close one direction of a tunnel: the connection cannot")
	}
	return nil
}

// Close closes the connection; it may be called more than once and while Read waits.
func (t *tunnel) Close() error {
	t.once.Do(func() { close(t.done) })
	return t.Conn.Close()
}
