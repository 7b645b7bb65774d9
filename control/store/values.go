package store

import (
	"fmt"
	"net/netip"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// maxValueProblems is how many problems of the values of one object are told.
const maxValueProblems = 10

// valueProblems says which ports and addresses of a document are none. An API server would not have taken them; here the rest of the
// object serves.
func valueProblems(key model.Key, value any) []model.Problem {
	v := &values{key: key}
	switch o := value.(type) {
	case *Service:
		for i, p := range o.Ports {
			v.port(fmt.Sprintf("spec.ports[%d].port", i), p.Port)
		}
	case *EndpointSlice:
		v.slice(o)
	}
	return v.problems
}

type values struct {
	key      model.Key
	problems []model.Problem
}

func (v *values) wrong(field, reason, message, mend string) {
	if len(v.problems) < maxValueProblems {
		v.problems = append(v.problems, model.Problem{
			Origin: model.Origin{Key: v.key, Field: field}, Reason: reason, Message: message, Mend: mend, Severity: model.Error,
		})
	}
}

func (v *values) port(field string, port int32) {
	if port < 1 || port > 65535 {
		v.wrong(field, "InvalidPort", fmt.Sprintf("%d is no port", port), "use 1 to 65535")
	}
}

func (v *values) slice(s *EndpointSlice) {
	families := []string{"IPv4", "IPv6", "FQDN"}
	switch s.AddressType {
	case "IPv4", "IPv6":
	case "FQDN":
		return // told where it is used
	default:
		mend := "use IPv4 or IPv6"
		if near := document.Nearest(s.AddressType, families); near != "" {
			mend = fmt.Sprintf("did you mean %q?", near)
		}
		v.wrong("addressType", "InvalidAddressType", fmt.Sprintf("%q is no addressType", shorten(s.AddressType)), mend)
	}
	for i, p := range s.Ports {
		if p.HasPort {
			v.port(fmt.Sprintf("ports[%d].port", i), p.Port)
		}
	}
	for i, e := range s.Endpoints {
		if addr, err := netip.ParseAddr(e.Address); err != nil || addr.Zone() != "" {
			v.wrong(fmt.Sprintf("endpoints[%d].addresses", i), "InvalidAddress", fmt.Sprintf("%q is no IP address", shorten(e.Address)), "write the address of a Pod, without port")
		}
	}
}
