package admin

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/engine"
	"sluice.dev/sluice/proxy/message"
)

// Explainer answers questions about requests by asking both halves: the engine, which rule of the running config takes the
// request, and translate, what the objects behind that rule say.
type Explainer struct {
	Engine   *engine.Engine
	View     func() store.View
	Options  translate.Options
	Problems func() []model.Problem // of all objects
}

// Explain walks a request from the outside in. The last step is the answer; unless it is the origin's own, it says which object
// and field to mend.
func (e *Explainer) Explain(q *Question) []model.Step {
	request := engine.Question{
		TLS: q.URL.Scheme == "https", Method: q.Method, Host: q.URL.Host, Path: q.URL.EscapedPath(), RawQuery: q.URL.RawQuery, Client: q.Client,
	}
	if _, err := netip.ParseAddr(q.URL.Hostname()); err != nil { // no client asks for an address in TLS
		request.Name = q.URL.Hostname()
	}
	if request.Path == "" {
		request.Path = "/"
	}
	for _, field := range q.Header {
		if strings.EqualFold(field[0], "Host") { // it stands in the place of the URL's, as curl has it
			request.Host = field[1]
			continue
		}
		request.Header.Add(field[0], field[1])
	}
	running := e.ask(&request, q.URL.Port())
	route, routed := routeOf(running)
	var objects []model.Step
	if routed {
		objects = translate.Explain(e.View(), e.Options, translate.ExplainRequest{Host: request.Host, Path: request.Path, Route: route})
	}
	steps := join(running, objects)
	if last := steps[len(steps)-1]; last.Stage != "answer" {
		steps = append(steps, model.Step{Stage: "answer", Text: "no connection"})
	}
	e.conclude(steps, route)
	return steps
}

// ask asks the engine. A port that no server has is one that clients see outside, such as 443; then the server is meant that knows
// the host, else the first of a controller.
func (e *Explainer) ask(request *engine.Question, port string) []model.Step {
	wanted, _ := strconv.ParseUint(port, 10, 16) // 0 when there is none
	var ports []uint16
	for _, s := range e.Engine.Snapshot().Config.Servers {
		switch {
		case s.HTTPS != request.TLS:
		case s.Port == uint16(wanted):
			request.Port = s.Port
			return e.Engine.Explain(request)
		case s.Origin.Key.Kind == model.KindIngressController:
			ports = slices.Insert(ports, 0, s.Port)
		default:
			ports = append(ports, s.Port)
		}
	}
	var first []model.Step
	for _, port := range ports {
		request.Port = port
		steps := e.Engine.Explain(request)
		if first == nil {
			first = steps
		}
		if slices.ContainsFunc(steps, func(s model.Step) bool { return s.Stage == "host" && s.OK }) {
			return steps
		}
	}
	if first == nil {
		return e.Engine.Explain(request)
	}
	return first
}

// routeOf returns the origin of the path that takes the request, "" when none does. Routed is false for a request that did not come
// as far as the rules.
func routeOf(steps []model.Step) (origin string, routed bool) {
	for _, s := range steps {
		switch {
		case s.Stage == "path" && s.OK, s.Stage == "host" && s.OK:
			origin, routed = s.Origin, true
		case s.Stage == "path", s.Stage == "host":
			origin, routed = "", true
		}
	}
	return origin, routed
}

// join puts the steps of the objects among those of the engine: the class before the filters, all else before the endpoints.
func join(running, objects []model.Step) []model.Step {
	var classes, services []model.Step
	for _, s := range objects {
		if s.Stage == "class" {
			classes = append(classes, s)
		} else {
			services = append(services, s)
		}
	}
	failed := slices.ContainsFunc(services, func(s model.Step) bool { return !s.OK })
	var all []model.Step
	for _, s := range running {
		switch s.Stage {
		case "filters":
			all, classes = append(all, classes...), nil
		case "endpoints":
			all = append(all, classes...)
			classes = nil
			if len(services) > 0 {
				if !failed && s.OK {
					services = withPool(services, s)
				}
				all, services = append(all, services...), nil
				if failed || s.OK {
					continue // the objects have said it better
				}
			}
		case "answer":
			all = append(all, classes...)
			if !s.OK { // else a filter answers, and no Service is asked
				all = append(all, services...)
			}
			classes, services = nil, nil
		}
		all = append(all, s)
	}
	return all
}

// withPool adds to the endpoints of the objects whom the pool leaves out now.
func withPool(services []model.Step, pool model.Step) []model.Step {
	i := slices.IndexFunc(services, func(s model.Step) bool { return s.Stage == "endpoints" })
	if i < 0 {
		return append(services, pool)
	}
	services = slices.Clone(services)
	services[i].Lost = slices.Concat(services[i].Lost, pool.Lost)
	return services
}

// conclude makes the last step name what to mend.
func (e *Explainer) conclude(steps []model.Step, route string) {
	answer := &steps[len(steps)-1]
	if answer.OK {
		if strings.Contains(answer.Text, "(reason "+message.RouteRedirect.String()+")") {
			answer.Origin, answer.Mend = route, "to serve plain HTTP here, remove the annotation sluice.dev/ssl-redirect, or the HTTPSRedirect filter of the pipeline"
		}
		return
	}
	for i := len(steps) - 2; i >= 0 && answer.Mend == ""; i-- {
		if s := steps[i]; !s.OK && s.Mend != "" {
			answer.Origin, answer.Mend = s.Origin, s.Text+"; "+s.Mend
		}
	}
	if answer.Mend != "" {
		return
	}
	for _, s := range slices.Backward(steps[:len(steps)-1]) {
		if !s.OK && s.Origin != "" {
			e.blame(answer, s.Origin)
		}
	}
	if route != "" {
		e.blame(answer, route)
	}
	if answer.Mend == "" {
		answer.Mend = "no object is at fault: the request itself is refused"
	}
}

// blame looks for a problem of the part of an object that origin names, the graver first.
func (e *Explainer) blame(answer *model.Step, origin string) {
	if answer.Mend != "" {
		return
	}
	for _, severity := range []model.Severity{model.Error, model.Warning} {
		for _, p := range e.Problems() {
			at := p.Origin.String()
			if p.Severity != severity || at != origin && !strings.HasPrefix(at, origin+".") && !strings.HasPrefix(at, origin+"[") {
				continue
			}
			answer.Origin, answer.Mend = at, p.Message
			if p.Mend != "" {
				answer.Mend += "; " + p.Mend
			}
			return
		}
	}
}
