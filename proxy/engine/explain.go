package engine

import (
	"cmp"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/filters"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/route"
	"sluice.dev/sluice/proxy/wire/h1"
)

// Question is a request that Explain is asked about.
type Question struct {
	TLS      bool
	Name     string // that a TLS client asks for; "" is none
	Port     uint16 // that the client connects to; 0, and one that nobody listens on, means any
	Method   string
	Host     string // as sent; a port is ignored
	Path     string // as sent, without the query
	RawQuery string
	Header   message.Header
	Client   netip.Addr // that connects; invalid: IP filters are only mentioned
}

// Explain walks a request from the outside in and says at each stage what is found. The last step is the answer.
func (e *Engine) Explain(q *Question) []model.Step {
	snap := e.snapshot.Load()
	x := &explanation{engine: e, snap: snap, question: q}
	for _, stage := range []func() bool{x.listener, x.handshake, x.head, x.admit, x.route, x.filters, x.pool} {
		if !stage() {
			break
		}
	}
	return x.steps
}

type explanation struct {
	engine   *Engine
	snap     *Snapshot
	question *Question
	steps    []model.Step
	server   *server
	wire     *message.Request
	client   netip.Addr
	request  route.Request
	entry    *route.Entry[*target]
}

func (x *explanation) add(s model.Step) bool {
	x.steps = append(x.steps, s)
	return s.OK
}

// fail ends the explanation with the answer of a reason.
func (x *explanation) fail(s model.Step, reason message.Reason) bool {
	if s.Stage != "" {
		x.add(s)
	}
	return x.answer(reason)
}

func (x *explanation) answer(reason message.Reason) bool {
	text := fmt.Sprintf("%d %s (reason %s)", reason.Status(), http.StatusText(reason.Status()), reason)
	x.add(model.Step{Stage: "answer", Text: text})
	return false
}

// listener chooses the server: one of the wanted port, else the first of the wanted kind.
func (x *explanation) listener() bool {
	kind := map[bool]string{false: "plain HTTP", true: "TLS"}[x.question.TLS]
	for _, s := range x.snap.servers {
		if s.spec.HTTPS != x.question.TLS || x.server != nil && s.spec.Port != x.question.Port {
			continue
		}
		x.server = s
		if s.spec.Port == x.question.Port {
			break
		}
	}
	if x.server == nil {
		return x.add(model.Step{Stage: "listener", Text: "no server takes " + kind, Mend: "give sluice serve an address for it, or an HTTPServer"})
	}
	s := x.server
	step := model.Step{
		Stage: "listener", OK: s.conns != nil, Origin: s.spec.Origin.String(),
		Text: fmt.Sprintf("server %s takes %s on %s", s.name, kind, address(s.spec)),
	}
	if !step.OK {
		step.Text = fmt.Sprintf("server %s cannot listen on %s", s.name, address(s.spec))
		step.Mend = "free the port or choose another one"
		for _, b := range x.engine.Binds() {
			if b.Server == s.name && b.Error != "" {
				step.Text += ": " + b.Error
			}
		}
	}
	return x.add(step)
}

func (x *explanation) handshake() bool {
	if !x.question.TLS || x.server.tls == nil {
		return true
	}
	steps := x.server.tls.Explain(x.question.Name)
	x.steps = append(x.steps, steps...)
	return !slices.ContainsFunc(steps, func(s model.Step) bool { return !s.OK })
}

// head reads the request as the wire does, and refuses what that refuses.
func (x *explanation) head() bool {
	q := x.question
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	var head strings.Builder
	head.WriteString(q.Method + " " + q.Path)
	if q.RawQuery != "" {
		head.WriteString("?" + q.RawQuery)
	}
	head.WriteString(" HTTP/1.1\r\nHost: " + q.Host + "\r\n")
	for i := range q.Header.Len() {
		head.WriteString(q.Header.At(i).Name + ": " + q.Header.At(i).Value + "\r\n")
	}
	head.WriteString("\r\n")
	r, refusal := h1.Parse(head.String(), map[bool]string{false: "http", true: "https"}[q.TLS], x.server.wire)
	if refusal != nil {
		step := model.Step{Stage: "request", Text: refusal.Detail}
		switch refusal.Reason {
		case message.BadHost:
			step = model.Step{Stage: "host", Text: fmt.Sprintf("%q is no host", q.Host)}
		case message.BadTarget:
			step = model.Step{Stage: "path", Text: fmt.Sprintf("%q is no path", q.Path)}
		}
		return x.fail(step, refusal.Reason)
	}
	x.wire, x.client = r, q.Client
	if trusted := x.engine.settings.TrustedProxies; q.Client.IsValid() && contains(trusted, q.Client.Unmap()) {
		x.client = identify(trusted, &peer{addr: q.Client.Unmap(), trusted: true}, &r.Header)
		r.Scheme = schemeOf(r)
	} else {
		r.Header.DelFunc(managed)
	}
	x.request = route.Request{Method: r.Method, Host: r.Host, Path: r.Path, RawQuery: r.RawQuery, Header: &r.Header}
	return true
}

// admit is what the server asks before it looks for a rule.
func (x *explanation) admit() bool {
	switch s := x.server; {
	case s.broken:
		return x.fail(model.Step{
			Stage: "filters", Origin: s.spec.Origin.String(),
			Text: "the server's IP filter cannot be built, so that nobody is let in", Mend: "see the problems of this object",
		}, message.FilterBroken)
	case x.client.IsValid() && !s.allow.Allow(x.client):
		return x.keptOut(model.Step{Stage: "filters", Origin: s.spec.Origin.String()}, "server")
	}
	return true
}

func (x *explanation) keptOut(step model.Step, who string) bool {
	step.OK = false
	step.Text, step.Mend = fmt.Sprintf("the %s's IP filter keeps %s out", who, x.client), "change ipFilter, or name the proxies in front as trusted"
	return x.fail(step, message.IPDenied)
}

func (x *explanation) route() bool {
	if x.server.rules == nil {
		return x.fail(model.Step{Stage: "host", Text: "server " + x.server.name + " has no rules"}, message.HostNotFound)
	}
	if x.question.TLS && x.server.tls != nil {
		if reason := x.server.tls.Judge(x.question.Name, x.request.Host); reason != message.OK {
			return x.fail(model.Step{
				Stage: "host", Text: fmt.Sprintf("a connection made for %q may not be used for host %q, which has a TLS entry of its own", x.question.Name, x.request.Host),
				Mend: "connect with that name",
			}, reason)
		}
	}
	x.steps = append(x.steps, x.server.rules.table.Explain(&x.request)...)
	found := x.server.rules.table.Lookup(&x.request)
	if found.Reason != message.OK {
		return x.answer(found.Reason)
	}
	x.entry = found.Entry
	return true
}

func (x *explanation) filters() bool {
	t := x.entry.Target
	step := model.Step{Stage: "filters", OK: true, Origin: t.origin}
	for _, part := range []struct {
		who    string
		filter *filters.IPFilter
	}{{"server", x.server.allow}, {"rule", t.rule}, {"path", t.path}} {
		switch {
		case part.filter == nil || t.broken:
		case !x.client.IsValid():
			step.Lost = append(step.Lost, "the "+part.who+" has an IP filter; say which client address to judge it")
		case !part.filter.Allow(x.client):
			return x.keptOut(step, part.who)
		}
	}
	chain := x.snap.chain(t.pipeline)
	switch {
	case t.broken:
		step.OK, step.Text, step.Mend = false, "an IP filter or setHeaders cannot be built, so that nobody is let in", "see the problems of this object"
		return x.fail(step, message.FilterBroken)
	case chain == nil:
		step.OK, step.Text, step.Mend = false, fmt.Sprintf("there is no pipeline %q", t.pipeline), "create it, or name another one"
		return x.fail(step, message.PipelineMissing)
	case len(chain.problems) > 0:
		step.OK, step.Text, step.Mend = false, "pipeline "+t.pipeline+" cannot be built: "+chain.problems[0].Message, chain.problems[0].Mend
		return x.fail(step, message.FilterBroken)
	}
	path, ok := x.entry.Rewrite(x.request.Path)
	if !ok {
		step.OK, step.Text = false, "rewriteTarget makes no path of "+x.request.Path
		return x.fail(step, message.BadTarget)
	}
	if path != x.request.Path {
		step.Text = "rewritten to " + path + "; "
	}
	x.wire.Path = path
	var names []string
	for _, s := range chain.Steps() {
		names = append(names, s.Name)
	}
	step.Text += fmt.Sprintf("pipeline %s: %s", t.pipeline, strings.Join(names, " → "))
	x.add(step)
	return !x.foretold(chain)
}

// foretold walks the steps that come before the one that forwards. It reports true when one of them answers, and the flow ends there.
func (x *explanation) foretold(chain *chain) bool {
	steps, answer := chain.Steps(), ""
	for i := 0; i < len(steps); {
		f, ok := steps[i].Filter.(filter.Foreteller)
		if !ok {
			return false
		}
		result, reason, status, remark := f.Foretell(x.wire)
		if status != 0 {
			answer = fmt.Sprintf("%d %s (reason %s) %s", status, http.StatusText(status), reason, remark)
		}
		i = steps[i].Next(i, result)
	}
	return answer != "" && x.add(model.Step{Stage: "answer", OK: true, Text: answer})
}

// pool says where the pipeline's forward step would send the request.
func (x *explanation) pool() bool {
	chain := x.snap.chain(x.entry.Target.pipeline)
	if len(chain.upstreams) == 0 {
		return x.add(model.Step{Stage: "answer", OK: true, Text: "what the pipeline's filters answer"})
	}
	name := chain.upstreams[0]
	pool := x.engine.pools.Get(name)
	if pool == nil {
		return x.answer(message.NoEndpoints)
	}
	status := pool.Status()
	if len(status.Endpoints) == 0 {
		spec, _ := x.snap.Config.Upstreams.Get(name)
		step := model.Step{Stage: "endpoints", Text: "upstream " + name + " has no endpoint: " + status.Reason}
		if spec != nil {
			step.Origin, step.Mend = spec.Origin.String(), status.Detail
		}
		return x.fail(step, message.ReasonNamed(status.Reason))
	}
	step := model.Step{Stage: "endpoints", OK: true}
	for _, e := range status.Endpoints {
		switch {
		case e.Ejected != nil:
			step.Lost = append(step.Lost, e.Address+" is left out until "+e.Ejected.Format("15:04:05"))
		case e.Terminating:
			step.Lost = append(step.Lost, e.Address+" is on its way out")
		case e.Name != "":
			step.Lost = append(step.Lost, e.Address+" is "+e.Name)
		}
	}
	count := fmt.Sprintf("%d endpoints", len(status.Endpoints))
	if len(status.Endpoints) == 1 {
		count = "1 endpoint"
	}
	step.Text = fmt.Sprintf("upstream %s: %s, %s", name, count, cmp.Or(status.Policy, "roundRobin"))
	x.add(step)
	return x.add(model.Step{Stage: "answer", OK: true, Text: "what the endpoint answers"})
}
