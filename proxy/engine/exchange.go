package engine

import (
	"errors"
	"net/http"
	"net/netip"
	"runtime/debug"
	"sync"
	"time"

	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/route"
	"sluice.dev/sluice/telemetry"
)

// exchange is one request on its way, with everything about it that is used again for the next.
type exchange struct {
	filter.Exchange
	engine  *Engine
	snap    *Snapshot
	server  *server
	metrics *telemetry.Server
	target  *target
	chain   *chain // kept to the end, see closeWhenUnused
	client  netip.Addr
	query   route.Request
	page    page
	counted message.Counted // the request body, if there is one

	answered  bool // a head went out, or was tried to
	tunnelled bool
	status    int
	up, sent  int64 // bytes of a tunnel from the client, and of the response
	record    telemetry.Record
}

var exchanges = sync.Pool{New: func() any { return new(exchange) }}

// serveRequest serves one request. It is the only place where a panic of a request is caught: it costs that request.
func (c *conns) serveRequest(stream message.Stream) {
	x := exchanges.Get().(*exchange)
	x.begin(c, stream)
	defer x.end()
	if x.admit() {
		x.chain.Run(&x.Exchange)
	}
	x.answer()
}

func (x *exchange) begin(c *conns, stream message.Stream) {
	x.Reset(stream)
	x.engine = c.engine
	x.snap, x.server = c.current()
	x.Start = c.engine.settings.Now()
	x.Route.Server = x.server.name
	x.metrics = x.server.metrics
	x.metrics.InFlight(1)
	x.engine.inFlight.Add(1)
}

// end accounts for the exchange and gives it back. A panic is answered with 500; where the head was out already, the server
// is told to break off, so that nobody takes what came of the response for the whole.
func (x *exchange) end() {
	v := recover()
	cut := v != nil && x.answered
	if v != nil {
		x.panicked(v)
	}
	x.account()
	x.metrics.InFlight(-1)
	if !x.tunnelled {
		x.engine.inFlight.Add(-1)
	}
	if v == nil { // what a panic left behind is not used again
		x.release()
	}
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// release gives x back; what it holds on to is what the next exchange uses.
func (x *exchange) release() {
	x.Stream, x.Request, x.Response = nil, nil, nil
	x.engine, x.snap, x.server, x.metrics, x.target, x.chain, x.counted = nil, nil, nil, nil, nil, nil, nil
	x.answered, x.tunnelled, x.status, x.up, x.sent = false, false, 0, 0, 0
	x.record, x.query = telemetry.Record{}, route.Request{}
	exchanges.Put(x)
}

func (x *exchange) panicked(v any) {
	x.engine.settings.Log.Error("panic while serving a request", "panic", v, "request", x.RequestID, "stack", string(debug.Stack()))
	x.engine.settings.Metrics.Panic("exchange")
	x.Reason = message.Panicked
	if x.answered {
		x.Discard()
		return
	}
	x.Stream.CloseAfter()
	x.Reply(message.Panicked)
	x.dress()
	x.respond()
}

// admit takes a request through everything that comes before its pipeline. It reports false when there is an answer already.
func (x *exchange) admit() bool {
	x.introduce()
	r := x.Request
	switch {
	case x.server.broken:
		return x.refuse(message.FilterBroken)
	case !x.server.allow.Allow(x.client):
		return x.refuse(message.IPDenied)
	case r.Method == http.MethodTrace || r.Method == http.MethodConnect:
		x.Stream.CloseAfter()
		x.refuse(message.MethodRefused)
		x.Response.Header.Add("Allow", methods)
		return false
	}
	if !x.route() {
		return false
	}
	t := x.target
	switch {
	case t.broken:
		return x.refuse(message.FilterBroken)
	case !t.rule.Allow(x.client) || !t.path.Allow(x.client):
		return x.refuse(message.IPDenied)
	}
	limit := t.maxBody
	if limit == 0 {
		limit = x.server.maxBody
	}
	if !x.take(limit) {
		return x.refuse(message.BodyTooLarge)
	}
	t.headers.Apply(&x.Exchange)
	if x.chain = x.snap.chain(t.pipeline); x.chain == nil {
		return x.refuse(message.PipelineMissing)
	}
	return true
}

const methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

func (x *exchange) refuse(reason message.Reason) bool {
	x.Reply(reason)
	return false
}

// introduce says who the client is, gives the request its id and its forwarding fields, and notes what the log says of it
// before filters change that.
func (x *exchange) introduce() {
	r, conn := x.Request, x.Stream.Conn()
	if x.engine.settings.AccessLog != nil {
		x.record.Host = r.Authority
		x.record.UserAgent, _ = r.Header.Value(message.UserAgent)
		x.record.Referer, _ = r.Header.Value(message.Referer)
	}
	p := conn.Traits.(*peer)
	x.client, x.ClientIP = p.addr, conn.Peer
	if p.trusted {
		if x.client = identify(x.engine.settings.TrustedProxies, p, &r.Header); x.client != p.addr {
			x.ClientIP = x.client.String()
		}
		r.Scheme = schemeOf(r)
	}
	x.RequestID = requestID(p, &r.Header)
	forward(r, conn, p, x.ClientIP)
	if p.trusted {
		r.Header.Set(message.XRequestID.Name(), x.RequestID)
	} else {
		addForwarded(&r.Header, message.XRequestID, x.RequestID)
	}
}

// route finds the path of the request and rewrites its target. It reports false when there is an answer already.
func (x *exchange) route() bool {
	r, conn := x.Request, x.Stream.Conn()
	x.query = route.Request{Method: r.Method, Host: r.Host, Path: r.Path, RawQuery: r.RawQuery, Header: &r.Header}
	found := x.server.rules.lookup(&x.query)
	// Which hosts there are must not be told to those who may not talk to them, so this comes before 404.
	if conn.TLS != nil && x.server.tls != nil {
		if reason := x.server.tls.Authorize(conn.TLS, r.Host); reason != message.OK {
			return x.refuse(reason)
		}
	}
	if found.Entry != nil {
		x.target = found.Entry.Target
		x.Route.Host, x.Route.Pattern = found.Entry.Host, found.Entry.Pattern
		x.Route.Origin, x.Route.Pipeline = x.target.origin, x.target.pipeline
	}
	if found.Reason != message.OK {
		x.refuse(found.Reason)
		if found.Reason == message.MethodNotAllowed {
			x.Response.Header.Add("Allow", found.Allow)
		}
		return false
	}
	path, ok := found.Entry.Rewrite(r.Path)
	if !ok {
		return x.refuse(message.BadTarget)
	}
	r.Path = path
	return true
}

// answer sends what the chain came to.
func (x *exchange) answer() {
	if x.Response == nil {
		x.Reply(message.NoResponse)
	}
	if x.Response.Tunnel != nil {
		x.tunnel()
		return
	}
	x.dress()
	x.RunHooks()
	x.respond()
}

// dress completes the head: with the page of a refusal, and with the request id. The wire adds Server and Date where an
// origin sent none.
func (x *exchange) dress() {
	r := x.Response
	if x.Replied() && r.Status >= 400 && r.Body == nil {
		x.page.dress(r, x.Request.Method, x.Request.Header.Get("Accept"), x.RequestID)
	}
	r.Header.Set(message.XRequestID.Name(), x.RequestID)
}

func (x *exchange) respond() {
	x.answered = true
	x.status = x.Response.Status
	sent, err := x.Stream.Respond(x.Response)
	x.sent = sent
	x.blame(err)
}

// blame finds the reason of a response that broke off: its body did, or else the client went away.
func (x *exchange) blame(err error) {
	if err == nil {
		return
	}
	x.Reason = message.ClientGone
	var broken *message.BodyError
	if errors.As(err, &broken) {
		x.Reason = broken.Reason
	}
}

// tunnel answers 101 and joins the two sides until they are done. It holds on to no snapshot meanwhile.
func (x *exchange) tunnel() {
	r := x.Response
	origin := r.Tunnel
	x.dress()
	x.RunHooks()
	x.answered = true
	x.status = r.Status
	client, err := x.Stream.Upgrade(r)
	if err != nil {
		origin.Close()
		x.blame(err)
		return
	}
	t := &tunnel{client: client, origin: origin, idle: x.engine.settings.TunnelIdle}
	x.engine.tunnels.add(t)
	defer x.engine.tunnels.remove(t)
	x.engine.inFlight.Add(-1)
	x.tunnelled = true
	x.snap, x.server, x.chain = nil, nil, nil
	t.run()
	x.up, x.sent = t.up, t.down
}

// account counts the exchange and writes its line in the access log.
func (x *exchange) account() {
	e := x.engine
	if x.Reason == message.ClientGone {
		x.status = x.Reason.Status()
	}
	took := e.settings.Now().Sub(x.Start)
	x.up += x.received()
	x.metrics.Done(x.status, x.Reason.String(), took, x.up, x.sent)
	if x.target != nil {
		e.origins.counter(x.target).Done(x.status)
	}
	if e.settings.AccessLog == nil {
		return
	}
	x.describe(took)
	e.settings.AccessLog.Write(&x.record)
}

func (x *exchange) describe(took time.Duration) {
	q, conn, r := x.Request, x.Stream.Conn(), &x.record
	r.Time, r.Took, r.ClientIP, r.Peer = x.Start, took, x.ClientIP, conn.Peer
	r.Method, r.URI, r.Version = q.Method, q.Target, q.Version.String()
	r.Status, r.Read, r.Written, r.Reason = x.status, x.up, x.sent, x.Reason.String()
	r.Server, r.Origin, r.RequestID = x.Route.Server, x.Route.Origin, x.RequestID
	r.Upstream, r.Endpoint, r.Attempts = x.Forward.Upstream, x.Forward.Endpoint, x.Forward.Attempts
	r.UpstreamStatus, r.UpstreamWait = x.Forward.Status, x.Forward.Wait
	if conn.TLS != nil {
		r.TLSVersion, r.ServerName = tlsName(conn.TLS.Version), conn.TLS.ServerName
	}
}
