package h1

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// Request is the request of the exchange that the connection is in.
func (c *conn) Request() *message.Request { return &c.request }

// Conn describes the connection.
func (c *conn) Conn() *message.Conn { return c.info }

// CloseAfter makes the exchange the last one.
func (c *conn) CloseAfter() { c.ending = true }

// Gone looks whether the client has closed or reset the connection; a client that only stopped sending counts.
func (c *conn) Gone() bool {
	return hungUp(&c.link.socket, c.link.under())
}

// Inform sends an interim response to a client that understands it.
func (c *conn) Inform(status int, h *message.Header) error {
	if c.asked.old || c.answered {
		return nil
	}
	if status < 100 || status > 199 || status == http.StatusSwitchingProtocols {
		return fmt.Errorf("interim response with status %d", status)
	}
	o := outlet{link: &c.link, timeout: c.set.WriteTimeout}
	o.open()
	defer o.close(c.server.poison)
	o.out = append(o.out, statusLines[status]...)
	if h != nil {
		o.out, _ = appendFields(o.out, h)
	}
	o.out = append(o.out, '\r', '\n')
	c.said100.Lock()
	defer c.said100.Unlock()
	return c.gone(o.flush())
}

// sayContinue asks the client for the body, unless the answer is already on its way.
func (c *conn) sayContinue() {
	c.said100.Lock()
	defer c.said100.Unlock()
	if !c.answered {
		_, _ = c.link.write([]byte("HTTP/1.1 100 Continue\r\n\r\n"), c.set.WriteTimeout) // a client that is gone shows when the body is read
	}
}

var errAnswered = errors.New("the exchange is answered already")

// Respond sends the final response.
func (c *conn) Respond(r *message.Response) (int64, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }() // read to its end or given up: whether its origin closed well concerns nobody
	}
	if c.answered {
		return 0, errAnswered
	}
	kind, length, hasBody := c.frame(r)
	o := outlet{link: &c.link, timeout: c.set.WriteTimeout}
	o.open()
	defer o.close(c.server.poison)
	trailer := ""
	if kind == byChunks && c.asked.trailers {
		trailer = announce(r.Trailer, &r.Header)
	}
	c.settle(kind == byClose && hasBody)
	o.out = c.appendHead(o.out, r, kind, length, trailer)
	var err error
	if hasBody {
		err = o.body(r.Body, kind, length, trailer)
	} else {
		err = o.flush()
	}
	return o.sent, c.ended(err, kind)
}

// frame chooses how the response is framed (RFC 9112 §6.3). A length of Unknown is not declared.
func (c *conn) frame(r *message.Response) (kind framing, length int64, hasBody bool) {
	switch {
	case r.Status == http.StatusNoContent:
		return byLength, message.Unknown, false
	case r.Status == http.StatusNotModified:
		if r.Length == 0 {
			return byLength, message.Unknown, false
		}
		return byLength, r.Length, false
	case c.asked.head:
		return byLength, r.Length, false
	case r.Body == nil:
		return byLength, 0, false
	case r.Length >= 0:
		return byLength, r.Length, r.Length > 0
	case c.asked.old:
		return byClose, message.Unknown, true
	}
	return byChunks, message.Unknown, true
}

// settle marks the exchange as answered and decides whether it is the last one. From here on nobody asks the client for a body.
func (c *conn) settle(closes bool) {
	if c.body != nil {
		c.said100.Lock()
		defer c.said100.Unlock()
	}
	c.answered = true
	c.ending = c.ending || closes || !c.set.KeepAlive || c.server.draining.Load() ||
		c.body != nil && !c.body.drainable(c.set.DrainBytes)
}

func (c *conn) appendHead(b []byte, r *message.Response, kind framing, length int64, trailer string) []byte {
	status := r.Status
	if status < 200 || status >= len(statusLines) {
		status = http.StatusInternalServerError
	}
	b = append(b, statusLines[status]...)
	b, has := appendFields(b, &r.Header)
	if !has.date {
		b = appendField(b, "Date", c.server.dateAt(time.Now()))
	}
	if !has.server {
		b = append(b, "Server: sluice\r\n"...)
	}
	switch {
	case kind == byChunks:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case length >= 0:
		b = appendLength(b, length)
	}
	if trailer != "" {
		b = appendField(b, "Trailer", trailer)
	}
	switch {
	case c.ending:
		b = append(b, "Connection: close\r\n"...)
	case c.asked.old:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	return append(b, '\r', '\n')
}

// ended explains how sending a response ended and, when it broke off, cuts the connection so that the client cannot take what it has for the whole.
func (c *conn) ended(err error, kind framing) error {
	if err == nil {
		return nil
	}
	if isWrite(err) {
		return c.gone(err)
	}
	if kind == byClose {
		c.link.settle(c.set.PartTimeout)
	}
	c.sever(kind == byClose)
	var body *message.BodyError
	if errors.As(err, &body) {
		return err
	}
	return &message.BodyError{Reason: message.UpstreamTruncated, Err: err}
}

// gone makes an error of writing ErrClientGone.
func (c *conn) gone(err error) error {
	if err == nil {
		return nil
	}
	c.sever(true)
	return fmt.Errorf("%w: %w", message.ErrClientGone, err)
}

// Upgrade answers 101 and hands the connection over.
func (c *conn) Upgrade(r *message.Response) (message.Tunnel, error) {
	if c.answered || c.asked.upgrade == "" {
		return nil, errors.New("upgrade of an exchange that did not ask for it or is answered")
	}
	c.answered = true
	o := outlet{link: &c.link, timeout: c.set.WriteTimeout}
	o.open()
	defer o.close(c.server.poison)
	o.out = append(o.out, statusLines[http.StatusSwitchingProtocols]...)
	o.out, _ = appendFields(o.out, &r.Header)
	o.out = appendField(o.out, "Upgrade", c.asked.upgrade)
	o.out = append(o.out, "Connection: Upgrade\r\n\r\n"...)
	if err := c.gone(o.flush()); err != nil {
		return nil, err
	}
	c.tunnel = newTunnel(&c.link)
	return c.tunnel, nil
}
