package engine

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filters"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/route"
)

// Question is a request that Explain is asked about.
type Question struct {
	TLS      bool
	Port     uint16 // that the client connects to; 0, and one that nobody listens on, means any
	Method   string
	Host     string // as in the URL; a port is ignored
	Path     string // as sent, without the query
	RawQuery string
	Header   message.Header
	Client   netip.Addr // invalid: IP filters are only mentioned
}

// Explain walks a request from the outside in and says at each stage what is found. The last step is the answer.
func (e *Engine) Explain(q *Question) []model.Step {
	snap := e.snapshot.Load()
	x := &explanation{engine: e, snap: snap, question: q}
	for _, stage := range []func() bool{x.listener, x.target, x.certificate, x.route, x.filters, x.pool} {
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

// target puts host and path in canonical form, as the wire does.
func (x *explanation) target() bool {
	q := x.question
	host, ok := canon.Host(q.Host)
	if !ok {
		return x.fail(model.Step{Stage: "host", Text: fmt.Sprintf("%q is no host", q.Host)}, message.BadHost)
	}
	path, ok := canon.Path(q.Path)
	if !ok {
		return x.fail(model.Step{Stage: "path", Text: fmt.Sprintf("%q is no path", q.Path)}, message.BadTarget)
	}
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	x.request = route.Request{Method: q.Method, Host: host, Path: path, RawQuery: q.RawQuery, Header: &q.Header}
	return true
}

func (x *explanation) certificate() bool {
	if !x.question.TLS || x.server.tls == nil {
		return true
	}
	x.steps = append(x.steps, x.server.tls.Explain(x.request.Host)...)
	return true
}

func (x *explanation) route() bool {
	if x.server.rules == nil {
		return x.fail(model.Step{Stage: "host", Text: "server " + x.server.name + " has no rules"}, message.HostNotFound)
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
	t, q := x.entry.Target, x.question
	step := model.Step{Stage: "filters", OK: true, Origin: t.origin}
	for who, f := range map[string]*filters.IPFilter{"server": x.server.allow, "rule": t.rule, "path": t.path} {
		switch {
		case f == nil:
		case !q.Client.IsValid():
			step.Lost = append(step.Lost, "the "+who+" has an IP filter; say which client address to judge it")
		case !f.Allow(q.Client):
			step.OK = false
			step.Text, step.Mend = fmt.Sprintf("the %s's IP filter keeps %s out", who, q.Client), "change ipFilter, or name the proxies in front as trusted"
			return x.fail(step, message.IPDenied)
		}
	}
	slices.Sort(step.Lost)
	chain := x.snap.chain(t.pipeline)
	switch {
	case t.broken || x.server.broken:
		step.OK, step.Text, step.Mend = false, "an IP filter or setHeaders cannot be built, so that nobody is let in", "see the problems of this object"
		return x.fail(step, message.FilterBroken)
	case chain == nil:
		step.OK, step.Text, step.Mend = false, fmt.Sprintf("there is no pipeline %q", t.pipeline), "create it, or name another one"
		return x.fail(step, message.PipelineMissing)
	case len(chain.problems) > 0:
		step.OK, step.Text, step.Mend = false, "pipeline "+t.pipeline+" cannot be built: "+chain.problems[0].Message, chain.problems[0].Mend
		return x.fail(step, message.FilterBroken)
	}
	if path, ok := x.entry.Rewrite(x.request.Path); !ok {
		step.OK, step.Text = false, "rewriteTarget makes no path of "+x.request.Path
		return x.fail(step, message.BadTarget)
	} else if path != x.request.Path {
		step.Text = "rewritten to " + path + "; "
	}
	var names []string
	for _, s := range chain.Steps() {
		names = append(names, s.Name)
	}
	step.Text += fmt.Sprintf("pipeline %s: %s", t.pipeline, strings.Join(names, " → "))
	return x.add(step)
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
			step.Origin, step.Mend = spec.Origin.String(), spec.Detail
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
		}
	}
	step.Text = fmt.Sprintf("upstream %s: %d endpoints, %s", name, len(status.Endpoints), status.Policy)
	x.add(step)
	return x.add(model.Step{Stage: "answer", OK: true, Text: "what the endpoint answers"})
}
