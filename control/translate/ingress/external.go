package ingress

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

const typeExternalName = "ExternalName"

// external returns the endpoint that an ExternalName Service leads to, and which of its ports that is; -1 is none that it lists. A
// port that is listed leads to its targetPort; a number that is not is used as it is, since such Services need no ports.
func (r *Reach) external(service *store.Service, ref ServiceRef) (model.Endpoint, int, *fault) {
	at := model.Origin{Key: ref.key(), Field: "spec.externalName"}
	port, number, bad := externalPort(service, ref)
	if bad != nil {
		return model.Endpoint{}, port, bad
	}
	host := strings.ToLower(service.ExternalName)
	addr, err := netip.ParseAddr(host)
	name := strings.TrimSuffix(host, ".")
	guard := r.guardOf(r.view.Object(ref.key()))
	switch what := ""; {
	case err == nil && addr.Zone() == "":
		addr = addr.Unmap()
		if what = guard.Refuses(netip.AddrPortFrom(addr, uint16(number))); what != "" {
			return model.Endpoint{}, port, refusedName(at, host, what)
		}
		host = addr.String()
	case guard != nil && (name == "localhost" || strings.HasSuffix(name, ".localhost")):
		return model.Endpoint{}, port, refusedName(at, host, "a name of this host")
	case !store.ValidName(name):
		return model.Endpoint{}, port, &fault{
			"name", "BackendUnsupported", reasonUnsupported, at, fmt.Sprintf("the externalName %q of Service %q is no host name", clip(service.ExternalName), ref.Service),
			"write a name such as api.example.com",
		}
	}
	return model.Endpoint{Address: net.JoinHostPort(host, strconv.Itoa(int(number)))}, port, nil
}

func refusedName(at model.Origin, host, what string) *fault {
	return &fault{
		"name", "AddressRefused", reasonAddressRefused, at, fmt.Sprintf("the externalName %q is %s, and is refused", clip(host), what),
		"name a host that requests may be sent to",
	}
}

// externalPort returns the port that a reference to an ExternalName Service means: its place in the Service's ports, or -1, and its number.
func externalPort(service *store.Service, ref ServiceRef) (i int, number int32, bad *fault) {
	i, bad = findPort(service, ref)
	if bad != nil {
		unlisted := bad.reason == "PortMissing" && ref.PortName == "" && ref.Port > 0 && ref.Port < 1<<16
		if !unlisted {
			return i, 0, bad
		}
		return -1, ref.Port, nil
	}
	p := &service.Ports[i]
	if number = p.TargetPort; number == 0 { // it is a name, and there are no Pods to ask
		number = p.Port
	}
	if number < 1 || number >= 1<<16 {
		return i, 0, &fault{
			"port", "PortMissing", reasonPortMissing,
			model.Origin{Key: ref.key(), Field: indexed("spec.ports", i)},
			fmt.Sprintf("port %s of Service %q leads to %d, which is no port", ref.port(), ref.Service, number), "use 1 to 65535",
		}
	}
	return i, number, nil
}

// explainExternal is the walk through an ExternalName Service, from its port on.
func (r *Reach) explainExternal(service *store.Service, ref ServiceRef, at model.Origin, fields bool) []model.Step {
	e, i, bad := r.external(service, ref)
	step := model.Step{Stage: "port", OK: true, Origin: ref.key().String(), Text: "port " + ref.port() + ", which the Service does not list, is used as it is"}
	if i >= 0 {
		step.Text = "port " + portText(&service.Ports[i])
		step.Origin = model.Origin{Key: ref.key(), Field: indexed("spec.ports", i)}.String()
	}
	if bad != nil && bad.field == "port" {
		return []model.Step{failed(step, bad, at, fields)}
	}
	last := model.Step{Stage: "endpoints", OK: true, Origin: model.Origin{Key: ref.key(), Field: "spec.externalName"}.String()}
	if bad != nil {
		return []model.Step{step, failed(last, bad, at, fields)}
	}
	last.Text = "the addresses of " + e.Address + ", looked up again when their time to live is over"
	if host, _, _ := net.SplitHostPort(e.Address); host != "" {
		if _, err := netip.ParseAddr(host); err == nil {
			last.Text = e.Address
		}
	}
	return []model.Step{step, last}
}
