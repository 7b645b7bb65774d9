package upstream

import (
	"errors"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/wire/h1"
)

// session carries one exchange at a time: a connection of HTTP/1, which is used again when its exchange is over. For a
// protocol whose connections are shared it is one stream, and never Reusable.
type session interface {
	// Send sends the request. Its error says that nothing was sent, or is the request body's *message.BodyError.
	Send(r *message.Request, host string) error
	// Receive reads the head of the final response. Its error is an *h1.Error, or the request body's *message.BodyError.
	Receive(r *message.Response, peer h1.Peer, timeout time.Duration) error
	Wrote() bool    // a byte of the request may have reached the origin
	Received() bool // a byte came back
	Reusable() bool
	Close()
}

// conn is a session with what the pool remembers of it.
type conn struct {
	session
	idleSince time.Time
	room      *room
	once      sync.Once
}

// Close closes the connection and gives its place up. It may be called more than once and from anywhere.
func (c *conn) Close() {
	c.session.Close()
	c.once.Do(c.room.give)
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.Close()
	}
}

func closeOne(c *conn) {
	if c != nil {
		c.Close()
	}
}

// fault is why an attempt failed.
type fault struct {
	reason message.Reason
	err    error
	client bool // the client's doing
	local  bool // ours: neither the client's nor the endpoint's
	stale  bool // a connection used before died before anything came back
	sent   bool // the origin may have got something of the request
	head   bool // the origin has begun to answer
}

func (f *fault) Error() string { return f.reason.String() + ": " + f.err.Error() }

func (f *fault) Unwrap() error { return f.err }

var errRetired = errors.New("the endpoint has been taken away")

// explain makes a fault of an error of Send or Receive.
func (c *conn) explain(err error, reused bool) *fault {
	f := &fault{reason: message.UpstreamReset, err: err, sent: c.Wrote(), head: c.Received()}
	var body *message.BodyError
	var own *h1.Error
	switch {
	case errors.As(err, &body):
		f.reason, f.client = body.Reason, true
		return f
	case errors.As(err, &own):
		f.reason = own.Reason
	}
	f.client = f.reason == message.ClientGone
	f.local = f.reason == message.FilterBroken
	f.stale = reused && !f.head && f.reason == message.UpstreamReset
	return f
}

var errNoRoom = errors.New("too many connections to endpoints")

// connect dials e.
func (p *Pool) connect(e *endpoint, timeout time.Duration) (*conn, *fault) {
	if !p.room.take() {
		return nil, &fault{reason: message.Overloaded, err: errNoRoom, local: true}
	}
	nc, err := p.dial(e, timeout)
	if short(err) && p.room.make() {
		nc, err = p.dial(e, timeout)
	}
	if err != nil {
		p.room.give()
		return nil, connectFault(err)
	}
	return &conn{session: h1.NewClient(nc, p.settings.client), room: p.room}, nil
}

func (p *Pool) dial(e *endpoint, timeout time.Duration) (net.Conn, error) {
	begun := p.settings.Now()
	nc, err := p.settings.Dial(e.address, timeout)
	p.metrics.Connect(p.settings.Now().Sub(begun), err == nil)
	return nc, err
}

// connectFault makes a fault of an error of Dial.
func connectFault(err error) *fault {
	f := &fault{reason: message.ConnectFailed, err: err, local: short(err) || errors.Is(err, os.ErrPermission)}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		f.reason = message.ConnectTimeout
	}
	if short(err) {
		f.reason = message.Overloaded
	}
	return f
}

// short reports whether a connection failed for want of something on this machine.
func short(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
