package h1

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// receiveHead reads and parses one head.
func (c *Client) receiveHead(r *message.Response, timeout time.Duration) error {
	l := &c.link
	wait := waiter{c: c, start: time.Now(), timeout: timeout}
	early := lexer{response: true}
	looked := 0
	if c.held {
		if err := c.sendHeld(&wait); err != nil {
			return explainRead(err)
		}
		c.received = l.w > 0
	}
	for {
		n := headEnd(l.buffered(), looked)
		if n > c.set.HeadBytes || n == 0 && l.w-l.r >= c.set.HeadBytes {
			return explainFault(badResponse("the head is too large"))
		}
		if n > 0 {
			c.head.reset(r, c.set.Fields)
			f := c.head.parse(string(l.buf[l.r : l.r+n]))
			l.r += n
			return explainFault(f)
		}
		looked = l.w - l.r
		if looked > 0 {
			c.head.reset(r, c.set.Fields)
			if f := c.lookEarly(&early, l.buffered()); f.bad() {
				return explainFault(f)
			}
		}
		if l.full() {
			l.grow(c.set.HeadBytes)
		}
		if err := wait.fill(); err != nil {
			return explainRead(err)
		}
		c.received = true
	}
}

// lookEarly finds out that what arrived is not the start of a response.
func (c *Client) lookEarly(early *lexer, b []byte) fault {
	const version = "HTTP/1."
	if n := min(len(b), len(version)); !strings.HasPrefix(version, string(b[:n])) {
		return badResponse("the status line is not that of HTTP/1")
	}
	f := early.advance(b, func(number int, line string) fault {
		if number == 0 {
			return c.head.start(line)
		}
		return fault{}
	})
	if f.bad() {
		f.reason = message.UpstreamMalformed
	}
	return f
}

func explainFault(f fault) error {
	if !f.bad() {
		return nil
	}
	return &Error{f.reason, errors.New("read response: " + f.detail)}
}

func explainRead(err error) error {
	var explained *Error
	if errors.As(err, &explained) {
		return err
	}
	return &Error{message.UpstreamReset, fmt.Errorf("read response: %w", unexpected(err))}
}

// waiter reads with one deadline for several reads, looking now and then whether anybody still waits for the answer.
type waiter struct {
	c       *Client
	start   time.Time
	timeout time.Duration
	tick    time.Duration
}

const (
	firstTick = time.Second
	lastTick  = 16 * time.Second
)

// fill reads more into the buffer of the client's link.
func (w *waiter) fill() error {
	w.limit(w.start)
	for {
		err := w.c.link.fill()
		if err == nil {
			return nil
		}
		if err = w.again(err); err != nil {
			return err
		}
	}
}

// read reads past the buffer.
func (w *waiter) read(p []byte) (int, error) {
	w.limit(w.start)
	for {
		n, err := w.c.link.read(p)
		if err == nil {
			return n, nil
		}
		if err = w.again(err); err != nil {
			return 0, err
		}
	}
}

// limit sets the deadline of the next read.
func (w *waiter) limit(now time.Time) {
	left := w.timeout
	if left > 0 {
		left = max(w.timeout-now.Sub(w.start), time.Millisecond)
	}
	if w.c.peer != nil {
		w.tick = max(w.tick, firstTick)
		if left == 0 || left > w.tick {
			left = w.tick
		}
	}
	w.c.link.limitRead(now, left)
}

// again decides after a failed read whether to go on: nil means that it should.
func (w *waiter) again(err error) error {
	if !isTimeout(err) || w.c.broken.Load() {
		return err
	}
	now := time.Now()
	if sent := w.c.sender.moment(now); sent.After(w.start) {
		w.start = sent // the origin's time begins when it has everything
	}
	if w.timeout > 0 && now.Sub(w.start) >= w.timeout {
		return &Error{message.UpstreamTimeout, errors.New("read response: it did not come in time")}
	}
	if w.c.peer != nil && w.c.peer.Gone() {
		return &Error{message.ClientGone, message.ErrClientGone}
	}
	w.tick = min(2*w.tick, lastTick)
	w.limit(now)
	return nil
}

// responseBody is the body of a Client's response.
type responseBody struct {
	c       *Client
	content content
	closed  bool
}

// Read reads content. Errors are *message.BodyError.
func (b *responseBody) Read(p []byte) (int, error) {
	if b.closed {
		return 0, &message.BodyError{Reason: message.UpstreamReset, Err: net.ErrClosed}
	}
	n, err := b.content.Read(p)
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.c.inExchange = false
	default:
		b.c.Close()
		if fault := b.c.sender.fault(); fault != nil {
			return n, fault // the request body broke off: that cut the origin off
		}
		err = explainBody(err)
	}
	return n, err
}

func explainBody(err error) error {
	reason := message.UpstreamTruncated
	var failed *Error
	switch {
	case isMalformed(err):
		reason = message.UpstreamMalformed
	case errors.As(err, &failed):
		reason = failed.Reason
	}
	return &message.BodyError{Reason: reason, Err: fmt.Errorf("read response body: %w", err)}
}

// Trailer returns the trailer fields that may be passed on.
func (b *responseBody) Trailer() *message.Header {
	if b.content.trailer.Len() == 0 {
		return nil
	}
	return &b.content.trailer
}

// Ready is message.Ready.
func (b *responseBody) Ready() (int, bool) { return b.content.ready() }

// Close gives the body up; unless it was read to its end, the connection closes.
func (b *responseBody) Close() error {
	if !b.closed && b.c.inExchange {
		b.c.Close()
	}
	b.closed = true
	return nil
}

func (b *responseBody) fill() error {
	w := waiter{c: b.c, start: time.Now(), timeout: b.c.set.BodyTimeout}
	return w.fill()
}

func (b *responseBody) read(p []byte) (int, error) {
	w := waiter{c: b.c, start: time.Now(), timeout: b.c.set.BodyTimeout}
	return w.read(p)
}
