package ingress

import (
	"fmt"
	"strconv"
	"strings"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// Explain walks from the path of an Ingress, or its defaultBackend, given by object and field, to the endpoints: the steps class, service,
// port and endpoints. It ends at the first that fails.
func Explain(reach *Reach, controllers []*model.IngressController, route model.Origin) []model.Step {
	view := reach.view
	in, found := store.Get[*store.Ingress](view, route.Key)
	if !found {
		return nil
	}
	o := view.Object(route.Key)
	steps := []model.Step{explainClass(view, controllers, o, in)}
	if !steps[0].OK {
		return steps
	}
	r := read(o, in)
	for ref := range r.refs {
		if ref.field != route.Field {
			continue
		}
		at := model.Origin{Key: o.Key, Field: ref.backendField()}
		if ref.target.broken == "" {
			at.Field += ".service"
			return append(steps, reach.ExplainService(ref.target.ref, at, true)...)
		}
		step := model.Step{Stage: "service", Text: "the backend is " + clip(ref.target.broken), Origin: at.String()}
		for _, p := range r.problems {
			if strings.HasPrefix(p.Origin.Field, at.Field) {
				step.Text, step.Mend, step.Origin = p.Message, p.Mend, p.Origin.String()
				break
			}
		}
		return append(steps, step)
	}
	return steps
}

func explainClass(view store.View, controllers []*model.IngressController, o *store.Object, in *store.Ingress) model.Step {
	step := model.Step{Stage: "class", Text: "Ingress " + o.Path() + " is not served: there is no controller"}
	classes := NewClasses(view)
	for _, c := range controllers {
		claim := classes.Claim(c, o, in)
		step.Origin, step.Mend = model.Origin{Key: o.Key, Field: claim.Field}.String(), claim.Mend
		if claim.Ours {
			step.OK, step.Text = true, fmt.Sprintf("Ingress %s is served by controller %s: %s", o.Path(), c.Name, claim.Why)
			return step
		}
		step.Text = fmt.Sprintf("Ingress %s is not served by controller %s: %s", o.Path(), c.Name, claim.Why)
	}
	return step
}

// Unserved says of each Ingress of a file that no controller serves, why. Others may serve it, so that this is for those who ask.
func Unserved(view store.View, controllers []*model.IngressController) []model.Problem {
	classes := NewClasses(view)
	var found []model.Problem
	for o, in := range store.List[*store.Ingress](view, store.KindIngress) {
		var first *Claim
		for _, c := range controllers {
			claim := classes.Claim(c, o, in)
			if claim.Ours || claim.Problem != nil {
				first = nil
				break
			}
			if first == nil {
				first = &claim
			}
		}
		if first == nil || o.File == "" {
			continue
		}
		found = append(found, model.Problem{
			Origin: model.Origin{Key: o.Key, Field: first.Field}, Reason: "NotServed", Severity: model.Warning,
			Message: "no controller serves the Ingress: " + first.Why, Mend: first.Mend,
		})
	}
	return found
}

// ExplainUnrouted says which Ingress would take a request, canonical host and path, if it were served; nothing when there is none.
func ExplainUnrouted(view store.View, controllers []*model.IngressController, host, path string) []model.Step {
	classes := NewClasses(view)
	var steps []model.Step
	for o, in := range store.List[*store.Ingress](view, store.KindIngress) {
		served := false
		for _, c := range controllers {
			served = served || classes.Claim(c, o, in).Ours
		}
		if served || !read(o, in).wants(host, path) {
			continue
		}
		if step := explainClass(view, controllers, o, in); len(steps) == 0 {
			steps = append(steps, step)
		} else {
			steps[0].Lost = append(steps[0].Lost, step.Text)
		}
	}
	return steps
}

// wants reports whether the Ingress has a rule that a request fits.
func (r *reading) wants(host, path string) bool {
	for i := range r.rules {
		rule := &r.rules[i]
		_, parent, _ := strings.Cut(host, ".")
		if rule.host != "" && rule.host != host && rule.host != "*."+parent {
			continue
		}
		for j := range rule.paths {
			at := rule.paths[j].place()
			if path == at.path || !at.exact && strings.HasPrefix(path, at.path+"/") {
				return true
			}
		}
	}
	return r.standard != nil
}

// ExplainService walks from a reference to a Service port to its endpoints. The origin is that of the reference; with fields, a step that
// fails names its name or port.
func (r *Reach) ExplainService(ref ServiceRef, at model.Origin, fields bool) []model.Step {
	service, bad := r.service(ref)
	step := model.Step{Stage: "service", OK: true, Text: "Service " + ref.path(), Origin: ref.key().String()}
	if bad != nil {
		return []model.Step{failed(step, bad, at, fields)}
	}
	steps := []model.Step{step}
	if service.Type == typeExternalName {
		return append(steps, r.explainExternal(service, ref, at, fields)...)
	}
	port, bad := findPort(service, ref)
	step = model.Step{Stage: "port", OK: true}
	if bad != nil {
		return append(steps, failed(step, bad, at, fields))
	}
	step.Text = "port " + portText(&service.Ports[port])
	step.Origin = model.Origin{Key: ref.key(), Field: indexed("spec.ports", port)}.String()
	steps = append(steps, step)
	return append(steps, r.explainEndpoints(ref, service, port))
}

func failed(step model.Step, bad *fault, at model.Origin, fields bool) model.Step {
	if fields {
		at.Field += "." + bad.field
	}
	step.OK, step.Text, step.Mend, step.Origin = false, bad.message, bad.mend, at.String()
	return step
}

func portText(p *store.ServicePort) string {
	text := strconv.Itoa(int(p.Port))
	if p.Name != "" {
		text = fmt.Sprintf("%q (%s)", p.Name, text)
	}
	to := p.TargetName
	if to == "" {
		to = strconv.Itoa(int(p.TargetPort))
	}
	return text + " with targetPort " + to
}

func (r *Reach) explainEndpoints(ref ServiceRef, service *store.Service, port int) model.Step {
	found := r.endpoints(ref, service, port)
	step := model.Step{Stage: "endpoints", OK: len(found.list) > 0, Text: found.summary(), Origin: ref.key().String()}
	const most = 10
	for i, e := range found.list {
		if i == most {
			step.Text += fmt.Sprintf("; the first %d of them are listed", most)
			break
		}
		state := "ready"
		if e.Terminating {
			state = "on its way out"
		}
		step.Lost = append(step.Lost, e.Address+" is "+state)
	}
	for _, p := range found.problems(ref, port) {
		if p.Reason != "NoEndpoints" {
			step.Lost = append(step.Lost, p.Message)
		}
	}
	if !step.OK {
		step.Mend = found.mend(ref)
	}
	return step
}
