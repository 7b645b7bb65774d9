package h1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// conn is a connection of a client, and the stream of the exchange that it is in.
type conn struct {
	server *Server
	info   *message.Conn
	link   link
	set    *Settings
	scheme string
	idle   atomic.Bool // waits for a request

	head    requestHead
	request message.Request
	start   time.Time // when the first byte of the request was there
	body    *requestBody
	said100 sync.Mutex // held while 100 Continue or a final head is written to a client that waits

	asked    asked
	answered bool
	ending   bool // no request after this one
	broken   bool // nothing more can be written
	tunnel   *tunnel

	stay   stay
	glance bool      // the next wait is a short one
	since  time.Time // when it began to wait for a request
}

// asked is what the request says about the response; filters may change the request.
type asked struct {
	head     bool // for no body
	old      bool // for HTTP/1.0
	trailers bool
	upgrade  string
}

func newConn(s *Server, nc net.Conn, info *message.Conn) *conn {
	c := &conn{server: s, info: info, scheme: "http"}
	c.link.nc = nc
	c.link.buf = make([]byte, small)
	c.stay.open(c)
	if info.TLS != nil {
		c.scheme = "https"
	}
	return c
}

func (c *conn) serve() {
	for c.next() {
		c.exchange()
		if c.tunnel != nil {
			<-c.tunnel.done
			return
		}
		if !c.finish() {
			break
		}
	}
	if c.broken {
		c.link.nc.Close()
		return
	}
	c.link.part(c.set.DrainBytes, c.set.PartTimeout)
}

// next waits for the next request that the stay leaves to us and parses its head; false when the connection is over.
func (c *conn) next() bool {
	c.renew()
	if c.link.r == c.link.w && !c.await() {
		c.broken = true
		return false
	}
	switch c.stay.take() {
	case begun:
		return true
	case over:
		return false
	}
	return c.begin()
}

// renew readies the connection for the next request.
func (c *conn) renew() {
	c.set = c.server.settings()
	c.head.reset(&c.request, c.set, c.scheme)
	c.body, c.answered, c.ending = nil, false, false
}

// begin reads and parses a head whose first bytes are there; false when the connection ended in it or it was refused.
func (c *conn) begin() bool {
	c.start = time.Now()
	n, f := c.readHead()
	if n == 0 && !f.bad() {
		c.refuse(fault{message.ClientGone, "the connection ended inside a request head"})
		return false
	}
	if !f.bad() {
		head := string(c.link.buf[c.link.r : c.link.r+n])
		c.link.r += n
		c.head.reset(&c.request, c.set, c.scheme)
		f = c.head.parse(head)
	}
	r := &c.request
	c.asked = asked{head: r.Method == http.MethodHead, old: r.Version == message.HTTP10, trailers: r.Trailers, upgrade: r.Upgrade}
	if f.bad() {
		c.refuse(f)
		return false
	}
	c.ending = !c.head.persists()
	if r.Length != 0 {
		c.body = newRequestBody(c)
		r.Body = c.body
	}
	return true
}

// await waits for the first bytes of a request that the stay leaves to us; false when the connection is over.
func (c *conn) await() bool {
	defer c.idle.Store(false)
	c.since = time.Now()
	for now := c.since; ; now = time.Now() {
		c.rest(now)
		draining := c.server.draining.Load() // after the deadline, which Drain moves
		if draining && !c.lastCall(now, c.since.Add(c.set.LastCall)) {
			return false
		}
		err := c.stay.read()
		switch {
		case c.stay.left != nothing || c.link.r != c.link.w:
			return true
		case err == nil:
		case isTimeout(err) && c.glance && c.link.due():
			c.glance = false
		case !isTimeout(err) || !draining && c.link.due():
			return false
		default:
			c.link.readBy = time.Time{} // Drain may have moved the deadline
			_ = c.link.nc.SetReadDeadline(c.link.readBy)
		}
	}
}

// rest readies a connection without a request for waiting.
func (c *conn) rest(now time.Time) {
	c.shrink()
	c.idle.Store(true)
	wait := c.set.IdleTimeout
	if c.glance && (wait <= 0 || wait > firstWait) {
		wait = firstWait
	}
	c.link.limitRead(now, wait)
}

// firstWait is how long, about, a stay waits before it looks whether the client has ended the connection together with its request.
const firstWait = 200 * time.Millisecond

// shrink makes the empty buffer as small as an idle connection may hold.
func (c *conn) shrink() {
	if len(c.link.buf) > small {
		c.link.buf = make([]byte, small)
	}
	c.link.r, c.link.w = 0, 0
}

// lastCall lets a connection that drains wait for a request until end, since one may be on its way; false when none came.
func (c *conn) lastCall(now, end time.Time) bool {
	if !now.Before(end) {
		if waiting, _ := c.link.socket.peek(c.link.under()); !waiting {
			return false
		}
		end = now.Add(time.Second) // it is there
	}
	c.link.readUntil(end)
	return true
}

// wake makes a connection that waits for a request look whether the server drains.
func (c *conn) wake() {
	if c.idle.Load() {
		_ = c.link.nc.SetReadDeadline(past()) // a connection that cannot have one is closed
	}
}

// readHead reads until the buffer holds a head and returns its length; 0 without a fault when the connection ended.
func (c *conn) readHead() (int, fault) {
	l := &c.link
	var early lexer
	looked, skipped := 0, false
	for {
		if !skipped && l.w-l.r >= 2 {
			skipped = true
			if l.buf[l.r] == '\r' && l.buf[l.r+1] == '\n' { // RFC 9112 §2.2
				l.r += 2
				early, looked = lexer{}, 0
			}
		}
		n := headEnd(l.buffered(), looked)
		if n > c.set.HeadBytes {
			return 0, c.tooLong()
		}
		if n > 0 {
			return n, fault{}
		}
		looked = l.w - l.r
		if f := early.advance(l.buffered(), c.early); f.bad() {
			return 0, f
		}
		if early.lines == 0 && looked > c.set.TargetBytes+maxMethod {
			return 0, fault{message.TargetTooLong, "the request line is too long"}
		}
		if looked >= c.set.HeadBytes || l.full() && !l.grow(c.set.HeadBytes) {
			return 0, c.tooLong()
		}
		l.readUntil(c.headBy())
		if err := l.fill(); err != nil {
			if isTimeout(err) {
				return 0, fault{message.HeadTimeout, "the request head did not arrive in time"}
			}
			c.broken = !errors.Is(err, io.EOF)
			return 0, fault{}
		}
	}
}

func (c *conn) headBy() time.Time {
	if c.set.HeadTimeout <= 0 {
		return time.Time{}
	}
	return c.start.Add(c.set.HeadTimeout)
}

func (c *conn) tooLong() fault { return fault{message.HeadTooLarge, "the request head is too large"} }

// early parses a line of a head that is not complete, so that its faults are answered at once.
func (c *conn) early(number int, line string) fault {
	if number == 0 {
		return c.head.start(line)
	}
	return c.head.field(line)
}

// exchange runs the handler and answers for it when it did not.
func (c *conn) exchange() {
	if !c.handle() {
		return
	}
	if !c.answered {
		c.refuse(fault{message.NoResponse, "the handler gave no answer"})
	}
}

// handle calls the handler; false when it panicked.
func (c *conn) handle() (returned bool) {
	defer func() {
		if returned {
			return
		}
		value := recover()
		if c.server.Panic != nil {
			c.server.Panic(value, debug.Stack())
		}
		if c.tunnel != nil {
			_ = c.tunnel.Close() // however it takes it, it is over
			return
		}
		if c.answered {
			c.sever(true)
			return
		}
		c.refuse(fault{message.Panicked, "the handler panicked"})
	}()
	c.server.Handler(c)
	return true
}

// sever ends the connection at once, so that the client cannot take what it has for the whole; with a reset where that is needed or
// harmless. Inside a stay that waits until the stay is over.
func (c *conn) sever(reset bool) {
	c.broken, c.ending = true, true
	switch {
	case c.stay.on && reset:
		c.stay.after = c.link.cut
	case c.stay.on:
		c.stay.after = func() { c.link.under().Close() }
	case reset:
		c.link.cut()
	default:
		c.link.under().Close()
	}
}

// refuse answers a request that the handler did not answer; the connection ends.
func (c *conn) refuse(f fault) {
	c.ending = true
	var r *message.Response
	if c.server.Refuse != nil {
		r = c.server.Refuse(c.info, &Refusal{Reason: f.reason, Request: &c.request, Detail: f.detail, Start: c.start})
	}
	if f.reason == message.ClientGone {
		return
	}
	if r == nil {
		r = &message.Response{Status: f.reason.Status()}
		if f.reason == message.MethodRefused {
			r.Header.Add("Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
		}
	}
	_, _ = c.Respond(r) // a client that is gone gets no answer
}

// finish ends an exchange; true when another request may follow.
func (c *conn) finish() bool {
	if c.server.poison {
		c.spoil()
	}
	if c.body != nil && !c.body.finish(c.set.DrainBytes) {
		return false
	}
	return !c.ending && !c.broken
}

// spoil overwrites what the exchange leaves behind, so that a test sees whoever still uses it.
func (c *conn) spoil() {
	for i := range c.request.Header.Len() {
		*c.request.Header.At(i) = message.Field{Name: "Poisoned", Value: "poisoned"}
	}
	for i := range c.link.buf[:c.link.r] {
		c.link.buf[i] = 0xdb
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
