package h1

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// Client is the client's end of one connection to an origin, for one exchange at a time: Send, Receive, read the response body to
// its end; then, if Reusable, again. It belongs to one goroutine; only Close may be called from elsewhere.
type Client struct {
	link link
	set  *ClientSettings

	head   responseHead
	body   responseBody
	out    outlet // the request, until it is written
	direct direct
	held   bool // out is to be written by Receive

	method  string
	upgrade string
	peer    Peer
	sender  *sender // of a request body that is not written by Send

	used            bool // not for the first time
	wrote, received bool
	inExchange      bool // a response is owed or being read
	persists        bool
	bound           bool // to one client by an authentication of connections
	broken          atomic.Bool
}

// Peer is what Receive needs of the client's side of an exchange; a message.Stream is one.
type Peer interface {
	Inform(status int, h *message.Header) error
	Gone() bool
}

// Error is a failure of the connection or of the origin, unlike a *message.BodyError from Send or Receive, which is the
// request body's.
type Error struct {
	Reason message.Reason
	Err    error
}

func (e *Error) Error() string { return e.Reason.String() + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// NewClient takes over a connection. Nil settings mean DefaultClientSettings.
func NewClient(nc net.Conn, set *ClientSettings) *Client {
	if set == nil {
		set = DefaultClientSettings()
	}
	c := &Client{set: set}
	c.link.nc = nc
	c.link.buf = make([]byte, small)
	c.body.c = c
	return c
}

// Wrote reports whether a byte of the last request may have reached the origin.
func (c *Client) Wrote() bool { return c.wrote }

// Received reports whether a byte came back for the last request.
func (c *Client) Received() bool { return c.received }

// Reusable reports whether the exchange is over and the connection fit for another: request and response complete, nothing behind
// the response, and both sides willing.
func (c *Client) Reusable() bool {
	return !c.inExchange && c.persists && !c.bound && !c.broken.Load() && c.link.r == c.link.w && c.sender.complete()
}

// Bound reports that request or response of the last exchange take part in an authentication that holds for the connection and not for
// the request (NTLM, Negotiate). Such a connection belongs to one client, and is not Reusable for another.
func (c *Client) Bound() bool { return c.bound }

// Stale reports, without waiting, that an idle connection must not be used again: the origin closed it or sent something that nobody
// asked for.
func (c *Client) Stale() bool {
	if c.broken.Load() || c.link.r != c.link.w {
		return true
	}
	waiting, gone := c.link.socket.peek(c.link.under())
	return waiting || gone
}

// Conn is the connection, for its addresses.
func (c *Client) Conn() net.Conn { return c.link.nc }

// Close closes the connection; an exchange in flight fails.
func (c *Client) Close() {
	c.broken.Store(true)
	c.link.nc.Close()
}

// abort closes the connection in the middle of a request so that the origin cannot take what it has for the whole.
func (c *Client) abort() {
	c.broken.Store(true)
	c.link.cut()
}

// Receive reads the head of the final response into r, whose header array it reuses, and leaves r.Body to be read. It
// waits for the head for at most timeout (0: for ever) after the request is sent. Interim responses go to peer; about once a second while it
// waits peer is asked whether it is gone. peer may be nil. r.Body is the Client's and not to be touched once the Client has been given to another exchange.
func (c *Client) Receive(r *message.Response, peer Peer, timeout time.Duration) error {
	c.peer = peer
	for interim := 0; ; interim++ {
		if err := c.receiveHead(r, timeout); err != nil {
			return c.failed(err)
		}
		if r.Status >= 200 || r.Status == http.StatusSwitchingProtocols {
			break
		}
		if interim == c.set.Interim {
			return c.failed(&Error{message.UpstreamMalformed, errors.New("read response: too many interim responses")})
		}
		if r.Status == http.StatusContinue {
			c.sender.proceed(true)
		} else if peer != nil {
			_ = peer.Inform(r.Status, &r.Header) // a client that is gone shows when the final response is sent
		}
	}
	c.sender.proceed(false)
	c.persists = c.head.persists()
	c.bound = c.bound || r.Status == http.StatusUnauthorized && binds(&r.Header, message.WWWAuthenticate)
	if r.Status == http.StatusSwitchingProtocols {
		return c.switched(r)
	}
	return c.frame(r)
}

// frame decides where the response body ends (RFC 9112 §6.3).
func (c *Client) frame(r *message.Response) error {
	b := &c.body
	b.content = content{link: &c.link, from: b, fields: c.set.Fields}
	b.closed = false
	switch {
	case r.Status == http.StatusNoContent || r.Status == http.StatusNotModified:
		if c.link.r != c.link.w {
			return c.failed(&Error{message.UpstreamMalformed, fmt.Errorf("read response: a %d has a body", r.Status)})
		}
		c.inExchange = false
		return nil
	case c.method == http.MethodHead || r.Length == 0:
		c.inExchange = false
		return nil
	case c.head.codings > 0:
		b.content.kind = byChunks
		b.content.announced = r.Trailer
	case r.Length > 0:
		b.content.kind, b.content.left = byLength, r.Length
	default:
		b.content.kind, c.persists = byClose, false
	}
	r.Body = b
	return nil
}

// switched makes the rest of the connection the tunnel of r.
func (c *Client) switched(r *message.Response) error {
	if c.upgrade == "" || !message.EqualFold(c.head.upgrade, c.upgrade) {
		return c.failed(&Error{message.UpstreamMalformed, errors.New("read response: a 101 that was not asked for")})
	}
	r.Upgrade = c.upgrade
	r.Length = 0
	c.persists = false
	r.Tunnel = newTunnel(&c.link)
	return nil
}

// failed ends the exchange and the connection. When the request body broke off, that is the cause.
func (c *Client) failed(err error) error {
	c.sender.proceed(false)
	c.Close()
	c.inExchange = false
	if fault := c.sender.fault(); fault != nil {
		return fault
	}
	return err
}

// binds reports whether a field of credentials or of a challenge names a scheme that authenticates connections.
func binds(h *message.Header, id message.ID) bool {
	for i := range h.Len() {
		f := h.At(i)
		if f.ID != id {
			continue
		}
		for rest, more := f.Value, true; more; {
			var element string
			element, rest, more = nextElement(rest)
			scheme, _, _ := strings.Cut(element, " ")
			if message.EqualFold(scheme, "NTLM") || message.EqualFold(scheme, "Negotiate") {
				return true
			}
		}
	}
	return false
}
