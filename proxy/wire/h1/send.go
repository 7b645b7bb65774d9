package h1

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// Send sends a request, with host as its Host field. A request without a body, or with one that is ready and small, is sent at the latest by
// Receive; the body of another is written from a goroutine that Receive and the response body watch over. An error says that
// nothing was sent, or is the request body's *message.BodyError; what happens to a request on its way shows in Receive.
func (c *Client) Send(r *message.Request, host string) error {
	c.method, c.upgrade = r.Method, r.Upgrade
	c.sender, c.peer, c.held = nil, nil, false
	c.wrote, c.received, c.persists = false, false, false
	if !isToken(r.Method) || !validTarget(r) || !isValue(host) {
		return &Error{message.FilterBroken, errors.New("send request: its method, target or host cannot be written")}
	}
	c.bound = c.bound || binds(&r.Header, message.Authorization)
	poll := c.direct.open(c.link.nc)
	if c.link.r != c.link.w || c.broken.Load() || c.used && !poll && c.Stale() {
		return c.unfit()
	}
	c.used, c.inExchange = true, true
	c.out = outlet{link: &c.link, timeout: c.set.WriteTimeout, hold: poll}
	c.out.open()
	kind, trailer := byLength, ""
	if r.Body != nil && r.Length < 0 {
		kind, trailer = byChunks, announce(r.Trailer, &r.Header)
	}
	c.out.out = appendRequest(c.out.out, r, host, trailer)
	var err error
	switch {
	case r.Body == nil || r.Length == 0:
		if !poll {
			err = c.out.flush()
		}
	case inline(r):
		err = c.out.body(r.Body, kind, r.Length, trailer)
	default:
		return c.sendLater(r, kind, trailer)
	}
	c.held = err == nil && len(c.out.out) > 0
	if c.held {
		return nil
	}
	defer c.out.close(false)
	return c.sent(err)
}

// inline reports whether a request body is there completely and small.
func inline(r *message.Request) bool {
	ready, ok := r.Body.(message.Ready)
	if !ok || r.Expect {
		return false
	}
	n, end := ready.Ready()
	return end && n <= bulkSize
}

func (c *Client) unfit() error {
	c.Close()
	return &Error{message.UpstreamReset, errors.New("send request: the origin has closed the connection or sent what nobody asked for")}
}

// sendHeld writes what Send left and reads the start of the answer. l's buffer is empty.
func (c *Client) sendHeld(wait *waiter) error {
	c.held = false
	wait.limit(wait.start)
	c.link.r, c.link.w = 0, 0
	d := &c.direct
	defer c.out.close(false)
	d.exchange(&c.out, c.link.buf)
	c.wrote = d.written > 0
	switch d.phase {
	case looking: // nothing was done: a deadline was still set from before, or the connection is closed
		return c.sendPlainly(c.out.out)
	case stale:
		return c.unfit()
	case writing:
		if d.err != nil && !c.wrote {
			return &Error{message.UpstreamReset, fmt.Errorf("send request: %w", d.err)}
		}
		return c.sendPlainly(c.out.out[d.written:])
	}
	if d.n > 0 {
		c.link.w = d.n
		return nil
	}
	if d.err == nil {
		d.err = io.EOF
	}
	return wait.again(d.err)
}

// sendPlainly writes a request or the rest of one.
func (c *Client) sendPlainly(rest []byte) error {
	n, err := c.link.write(rest, c.set.WriteTimeout)
	c.wrote = c.wrote || n > 0
	if err != nil && !c.wrote {
		return &Error{message.UpstreamReset, fmt.Errorf("send request: %w", err)}
	}
	return nil // when the origin closed early, its answer may be there to read
}

// sent explains how sending inline ended.
func (c *Client) sent(err error) error {
	c.wrote = c.out.wrote
	switch {
	case err == nil:
		return nil
	case !isWrite(err):
		c.abort()
		return err
	case c.wrote:
		c.sender = brokenSender() // the origin may have answered before it closed
		return nil
	}
	c.Close()
	return &Error{message.UpstreamReset, err}
}

// sendLater writes the head and leaves the body to a goroutine.
func (c *Client) sendLater(r *message.Request, kind framing, trailer string) error {
	if err := c.out.flush(); err != nil {
		defer c.out.close(false)
		return c.sent(err)
	}
	c.wrote = true
	s := &sender{c: c, done: make(chan struct{}), goOn: make(chan bool, 1)}
	c.sender = s
	body, length, expect := r.Body, r.Length, r.Expect
	out := c.out // from here on the goroutine's
	c.out, out.hold = outlet{}, false
	go func() {
		defer close(s.done)
		defer out.close(false)
		if expect && !s.wait(c.set.ContinueWait) {
			s.end(errNotSent)
			return
		}
		s.end(out.body(body, kind, length, trailer))
	}()
	return nil
}

var errNotSent = &errWrite{errors.New("the origin answered without the request body")}

// sender writes a request body while the response is read. A nil sender is one that was not needed.
type sender struct {
	c    *Client
	done chan struct{} // closed at the end
	goOn chan bool     // false: do not send the body

	mu    sync.Mutex
	over  bool
	at    time.Time // when it was over
	err   error     // of writing
	cause error     // of the request body
}

// brokenSender is one that could not write everything.
func brokenSender() *sender {
	s := &sender{done: make(chan struct{}), over: true, err: errNotSent}
	close(s.done)
	return s
}

// wait waits until the origin asks for the body, or says nothing for a while; false when it does not want it.
func (s *sender) wait(most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case goOn := <-s.goOn:
		return goOn
	case <-timer.C:
		return true
	}
}

// proceed tells a sender that waits whether to send the body; one that does not wait is not concerned.
func (s *sender) proceed(goOn bool) {
	if s == nil || s.goOn == nil {
		return
	}
	select {
	case s.goOn <- goOn:
	default:
	}
}

// end records how the sender ended. When the request body broke off, the origin is cut off.
func (s *sender) end(err error) {
	s.mu.Lock()
	s.over, s.at = true, time.Now()
	switch {
	case err == nil:
	case isWrite(err):
		s.err = err
	default:
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = &message.BodyError{Reason: message.ClientGone, Err: err}
		}
		s.cause = err
	}
	cause := s.cause
	s.mu.Unlock()
	if cause != nil {
		s.c.abort()
	}
}

func (s *sender) fault() error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *sender) running() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.over
}

// moment is when the sender was over, now while it is not.
func (s *sender) moment(now time.Time) time.Time {
	if s == nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return s.at
	}
	return now
}

// settleTime is how long complete waits for a sender that has the last write behind it but has not said so.
const settleTime = 5 * time.Millisecond

// complete reports whether all of the request was written.
func (s *sender) complete() bool {
	if s == nil {
		return true
	}
	if s.running() {
		timer := time.NewTimer(settleTime)
		defer timer.Stop()
		select {
		case <-s.done:
		case <-timer.C:
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil && s.cause == nil
}

// validTarget reports whether a request's target can stand in a request line.
func validTarget(r *message.Request) bool {
	return isTarget(r.Path) && (r.RawQuery == "" || isTarget(r.RawQuery))
}

// appendRequest appends a request head (RFC 9112 §3).
func appendRequest(b []byte, r *message.Request, host, trailer string) []byte {
	b = append(b, r.Method...)
	b = append(b, ' ')
	b = append(b, r.Path...)
	if r.HasQuery {
		b = append(b, '?')
		b = append(b, r.RawQuery...)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, host...)
	b = append(b, '\r', '\n')
	b, _ = appendFields(b, &r.Header)
	switch {
	case r.Body != nil && r.Length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case r.Body != nil && r.Length > 0:
		b = appendLength(b, r.Length)
	case r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch:
		b = append(b, "Content-Length: 0\r\n"...)
	}
	if r.Expect && r.Body != nil && r.Length != 0 {
		b = append(b, "Expect: 100-continue\r\n"...)
	}
	if trailer != "" {
		b = appendField(b, "Trailer", trailer)
	}
	switch {
	case r.Upgrade != "":
		b = append(b, "Connection: Upgrade\r\nUpgrade: "...)
		b = append(b, r.Upgrade...)
		b = append(b, '\r', '\n')
	case r.Trailers:
		b = append(b, "TE: trailers\r\nConnection: TE\r\n"...)
	}
	return append(b, '\r', '\n')
}
