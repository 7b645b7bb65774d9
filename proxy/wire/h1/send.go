package h1

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// Send sends a request, with host as its Host field. What is ready of the body is written along with the head; the rest, if any, from a goroutine that Receive and the
// response body watch over. The error is nil when it is not certain that the origin got nothing: Receive tells then.
func (c *Client) Send(r *message.Request, host string) error {
	c.method, c.upgrade = r.Method, r.Upgrade
	c.sender, c.peer = nil, nil
	c.wrote, c.received, c.persists = false, false, false
	if c.link.r != c.link.w || c.broken.Load() {
		return &Error{message.UpstreamReset, errors.New("send request: the connection is not fit for another request")}
	}
	if !isToken(r.Method) || !validTarget(r) || !isValue(host) {
		return &Error{message.FilterBroken, errors.New("send request: its method, target or host cannot be written")}
	}
	c.inExchange = true
	o := outlet{link: &c.link, timeout: c.set.WriteTimeout}
	o.open()
	kind, trailer := byLength, ""
	if r.Body != nil && r.Length < 0 {
		kind, trailer = byChunks, announce(r.Trailer, &r.Header)
	}
	o.out = appendRequest(o.out, r, host, trailer)
	if r.Body == nil || r.Length == 0 {
		defer o.close(false)
		return c.sent(&o, o.flush())
	}
	if ready, ok := r.Body.(message.Ready); ok && !r.Expect {
		if n, end := ready.Ready(); end && n <= bulkSize {
			defer o.close(false)
			return c.sent(&o, o.body(r.Body, kind, r.Length, trailer))
		}
	}
	return c.sendLater(&o, r, kind, trailer)
}

// sent explains how sending inline ended.
func (c *Client) sent(o *outlet, err error) error {
	c.wrote = o.wrote
	var write *errWrite
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &write):
		c.abort()
		return err
	case o.wrote:
		c.sender = brokenSender() // the origin may have answered before it closed
		return nil
	}
	c.Close()
	return &Error{message.UpstreamReset, err}
}

// sendLater writes the head and leaves the body to a goroutine.
func (c *Client) sendLater(o *outlet, r *message.Request, kind framing, trailer string) error {
	if err := o.flush(); err != nil {
		defer o.close(false)
		return c.sent(o, err)
	}
	c.wrote = true
	s := &sender{c: c, done: make(chan struct{}), goOn: make(chan bool, 1)}
	c.sender = s
	body, length, expect := r.Body, r.Length, r.Expect
	out := *o
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
	err   error // of writing
	cause error // of the request body
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
	var write *errWrite
	s.mu.Lock()
	s.over = true
	switch {
	case err == nil:
	case errors.As(err, &write):
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
