package filter

import (
	"time"

	"sluice.dev/sluice/proxy/message"
)

// Exchange is one request and its response on their way through a chain. It belongs to one goroutine and is reused after
// the response has gone out: a filter keeps nothing of it.
type Exchange struct {
	Stream   message.Stream
	Request  *message.Request
	Response *message.Response // nil until a filter made one
	Reason   message.Reason    // why the response is what it is; OK when it is the origin's own

	Start     time.Time
	ClientIP  string // the client's address as the trusted proxies tell it, else the peer's
	RequestID string

	Route   Route   // what the route table chose
	Forward Forward // what the forward step did, for the log and metrics

	// Memory is what the forward step keeps from one exchange to the next so that it need not allocate; nobody else touches it.
	Memory any

	step     int // of the chain, while it waits
	response message.Response
	replied  bool // by ReplyStatus
	hooks    []func(*Exchange)
	attached map[any]any
}

// Route is what the rules of the server chose for the request.
type Route struct {
	Server   string // HTTPServer name
	Host     string // the rule's host pattern
	Origin   string // object and field that the rule came from, for logs and counters
	Pipeline string
	Pattern  string // what matched: the path rule's pattern
}

// Forward is what the forward step did.
type Forward struct {
	Upstream string
	Endpoint string
	Attempts int
	Status   int           // of the upstream's response
	Wait     time.Duration // until its head
}

// Reply makes a response without a body the answer, with the reason's status. The header is empty and the caller's to fill.
func (x *Exchange) Reply(reason message.Reason) *message.Response {
	return x.ReplyStatus(reason, reason.Status())
}

// ReplyStatus is Reply with a status of the caller's choice. The engine gives an error without a body the standard page.
func (x *Exchange) ReplyStatus(reason message.Reason, status int) *message.Response {
	r := x.Answer()
	x.Reason, x.replied = reason, true
	r.Status = status
	r.Version = message.HTTP11
	return r
}

// Answer makes an empty response that x owns the answer, for the forward step to fill. A response there was is given up.
func (x *Exchange) Answer() *message.Response {
	x.Discard()
	header := x.response.Header
	header.Reset()
	x.response = message.Response{Header: header}
	x.Response, x.replied = &x.response, false
	return x.Response
}

// Replied reports whether the response is one of Reply's rather than an origin's.
func (x *Exchange) Replied() bool { return x.replied && x.Response == &x.response }

// Discard gives up the response there is, if any.
func (x *Exchange) Discard() {
	if x.Response != nil && x.Response.Body != nil {
		_ = x.Response.Body.Close() // it was not wanted; whether its origin closed well concerns nobody
	}
	if x.Response != nil && x.Response.Tunnel != nil {
		_ = x.Response.Tunnel.Close() // likewise
	}
	x.Response = nil
}

// OnResponse registers a hook that runs once, for whatever head goes out, errors and early answers included; the last
// registered runs first.
func (x *Exchange) OnResponse(hook func(*Exchange)) { x.hooks = append(x.hooks, hook) }

// RunHooks runs the hooks; the engine calls it when the head is final.
func (x *Exchange) RunHooks() {
	for i := len(x.hooks) - 1; i >= 0; i-- {
		x.hooks[i](x)
	}
	x.hooks = x.hooks[:0]
}

// Attach keeps a value with the exchange under a key of a type private to the caller's package.
func (x *Exchange) Attach(key, value any) {
	if x.attached == nil {
		x.attached = map[any]any{}
	}
	x.attached[key] = value
}

// Attached returns what Attach kept, or nil.
func (x *Exchange) Attached(key any) any { return x.attached[key] }

// Reset readies x for a new request; arrays are kept.
func (x *Exchange) Reset(stream message.Stream) {
	clear(x.hooks[:cap(x.hooks)])
	header := x.response.Header
	header.Reset()
	*x = Exchange{
		Stream: stream, Request: stream.Request(), Memory: x.Memory,
		hooks: x.hooks[:0], response: message.Response{Header: header},
	}
}
