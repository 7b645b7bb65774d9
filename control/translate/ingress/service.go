package ingress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// The reasons of upstreams that have no endpoints, as responses give them.
const (
	reasonServiceMissing = "service_missing"
	reasonPortMissing    = "port_missing"
	reasonUnsupported    = "backend_unsupported"
	reasonAddressRefused = "address_refused"
)

// fault is why a reference to a Service port leads nowhere.
type fault struct {
	field   string // of the reference: name or port
	reason  string // of the Problem
	answer  string // of the upstream
	at      model.Origin
	message string
	mend    string
}

// service returns the Service that a reference names.
func (r *Reach) service(ref ServiceRef) (*store.Service, *fault) {
	service, found := store.Get[*store.Service](r.view, ref.key())
	at := model.Origin{Key: ref.key()}
	switch {
	case !found:
		return nil, &fault{"name", "ServiceMissing", reasonServiceMissing, at, fmt.Sprintf("there is no Service %q in namespace %q", clip(ref.Service), ref.Namespace), "create it, or name another"}
	case ref.path() == apiServerPath && r.view.Object(ref.key()).File == "":
		return service, &fault{"name", "BackendUnsupported", reasonUnsupported, at, fmt.Sprintf("Service %q is the API server, which is no backend", ref.Service), "name another"}
	case service.Type == typeExternalName && !r.externalNames:
		at.Field = "spec.type"
		return service, &fault{
			"name", "BackendUnsupported", reasonUnsupported, at, fmt.Sprintf("Service %q is an ExternalName, which could lead anywhere and is refused", ref.Service),
			"use a Service with a selector, or one with EndpointSlices of your own; --allow-external-name-services, or allowExternalNameServices of the IngressController, allows it",
		}
	}
	return service, nil
}

// findPort returns the index of the port that a reference names. A number is that of a TCP port; the same number may be
// that of a UDP port too.
func findPort(service *store.Service, ref ServiceRef) (int, *fault) {
	wrong := -1 // the port is there, but not for TCP
	for i := range service.Ports {
		p := &service.Ports[i]
		if ref.PortName != "" && p.Name != ref.PortName || ref.PortName == "" && p.Port != ref.Port {
			continue
		}
		if p.Protocol == "TCP" {
			return i, speaks(service, ref, i)
		}
		wrong = i
	}
	at := model.Origin{Key: ref.key(), Field: "spec.ports"}
	if wrong >= 0 {
		at.Field = indexed(at.Field, wrong)
		return -1, &fault{
			"port", "BackendUnsupported", reasonUnsupported, at, fmt.Sprintf("port %s of Service %q is %s, and HTTP goes over TCP", ref.port(), ref.Service, service.Ports[wrong].Protocol),
			"its ports are " + portsOf(service),
		}
	}
	if ref.PortName == "" && ref.Port == 0 {
		return -1, &fault{"port", "PortMissing", reasonPortMissing, at, fmt.Sprintf("no port of Service %q is named", ref.Service), "its ports are " + portsOf(service)}
	}
	return -1, &fault{
		"port", "PortMissing", reasonPortMissing, at, fmt.Sprintf("Service %q has no port %s; its ports are %s", ref.Service, ref.port(), portsOf(service)),
		nearestPort(service, ref),
	}
}

// speaks says whether the port speaks a protocol that is spoken here.
func speaks(service *store.Service, ref ServiceRef, i int) *fault {
	switch app := service.Ports[i].AppProtocol; {
	case app == "", strings.EqualFold(app, "http"), app == "kubernetes.io/ws":
		return nil
	default:
		return &fault{
			"port", "BackendUnsupported", reasonUnsupported,
			model.Origin{Key: ref.key(), Field: indexed("spec.ports", i) + ".appProtocol"},
			fmt.Sprintf("port %s of Service %q speaks %q; only http is spoken to endpoints in this version", ref.port(), ref.Service, clip(app)),
			"remove appProtocol if the port speaks plain HTTP/1.1",
		}
	}
}

// portsOf lists the ports of a Service as people name them.
func portsOf(service *store.Service) string {
	const most = 10
	var words []string
	for i := range service.Ports[:min(most, len(service.Ports))] {
		p := &service.Ports[i]
		word := strconv.Itoa(int(p.Port))
		if p.Protocol != "TCP" {
			word += "/" + p.Protocol
		}
		if p.Name != "" {
			word = clip(p.Name) + " (" + word + ")"
		}
		words = append(words, word)
	}
	switch more := len(service.Ports) - most; {
	case len(words) == 0:
		return "none"
	case more > 0:
		return strings.Join(words, ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(words, ", ")
}

// nearestPort says which port was probably meant.
func nearestPort(service *store.Service, ref ServiceRef) string {
	var names []string
	for i := range service.Ports[:min(maxSuggested, len(service.Ports))] {
		p := &service.Ports[i]
		if p.Protocol != "TCP" {
			continue
		}
		names = append(names, p.Name)
		if ref.PortName == "" && p.TargetPort == ref.Port || ref.PortName != "" && p.TargetName == ref.PortName {
			return fmt.Sprintf("%s is the targetPort of %d: write number: %d", ref.port(), p.Port, p.Port)
		}
		if ref.PortName == strconv.Itoa(int(p.Port)) {
			return fmt.Sprintf("write number: %d, not name", p.Port)
		}
	}
	if len(service.Ports) == 0 {
		return "give it that port"
	}
	if nearest := document.Nearest(ref.PortName, names); ref.PortName != "" && nearest != "" {
		return fmt.Sprintf("did you mean %q?", nearest)
	}
	return "name one of them"
}

// resolution is what a reference to a Service port leads to.
type resolution struct {
	port     int // in the Service's ports; -1
	fault    *fault
	list     []model.Endpoint
	external bool // list is the name of an ExternalName Service
	guard    *model.Guard
	notes    []model.Problem // for the Service
}

// resolve follows a reference as far as it leads.
func (r *Reach) resolve(ref ServiceRef) resolution {
	made := resolution{port: -1}
	service, bad := r.service(ref)
	switch {
	case bad != nil:
	case service.Type == typeExternalName:
		var e model.Endpoint
		if e, made.port, bad = r.external(service, ref); bad == nil {
			made.external, made.list, made.guard = true, []model.Endpoint{e}, r.guardOf(r.view.Object(ref.key()))
		}
	default:
		if made.port, bad = findPort(service, ref); bad == nil {
			found := r.endpoints(ref, service, made.port)
			made.list, made.notes = found.list, found.problems(ref, made.port)
		}
	}
	made.fault = bad
	return made
}

// upstream is the reference as the engine runs it.
func (r *resolution) upstream(name string, ref ServiceRef) *model.Upstream {
	u := &model.Upstream{Name: name, Origin: model.Origin{Key: ref.key()}, Endpoints: slices.Clip(r.list), Guard: r.guard}
	switch {
	case r.external:
		u.Origin.Field = "spec.externalName"
	case r.port >= 0:
		u.Origin.Field = indexed("spec.ports", r.port)
	}
	if r.fault != nil {
		u.Reason, u.Detail = r.fault.answer, r.fault.at.String()
	}
	return u
}
