package ingress

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// endpoints is what the EndpointSlices of a Service give for one of its ports.
type endpoints struct {
	list        []model.Endpoint // ordered by address
	slices      int
	unready     int      // neither ready nor serving on their way out
	terminating int      // serving on their way out
	portless    []string // slices without a port number
	others      []string // slices that have other ports only, and which
	foreign     []string // slices of host names
	refused     []string // addresses that nobody may send requests to
	broken      []string // addresses that are none
	badPorts    []string
}

// candidate is an endpoint before those that stand twice are sorted out.
type candidate struct {
	model.Endpoint
	pod  string // with its namespace; "" when it is not known
	ipv6 bool
}

// endpoints gathers the endpoints of a Service's port. A slice has the port under the name that the Service gives it; where no slice
// knows that name, it is the one with the number of the target port.
func (r *Reach) endpoints(ref ServiceRef, service *store.Service, port int) endpoints {
	var found endpoints
	var all []candidate
	objects := r.view.EndpointSlices(ref.path())
	byName := slices.ContainsFunc(objects, func(o *store.Object) bool {
		return slices.ContainsFunc(o.Value.(*store.EndpointSlice).Ports, func(p store.EndpointPort) bool { return p.Protocol == "TCP" && p.Name == service.Ports[port].Name })
	})
	for _, o := range objects {
		found.slices++
		slice := o.Value.(*store.EndpointSlice)
		if slice.AddressType == "FQDN" {
			found.foreign = append(found.foreign, o.Key.Name)
			continue
		}
		number, state := portIn(slice, &service.Ports[port], byName)
		switch {
		case state == portAbsent && len(slice.Endpoints) > 0:
			found.portless = append(found.portless, o.Key.Name)
		case state == portOther && len(slice.Endpoints) > 0:
			found.others = append(found.others, o.Key.Name+", which has "+slicePorts(slice))
		case state == portInvalid && len(slice.Endpoints) > 0:
			found.badPorts = append(found.badPorts, fmt.Sprintf("%d of %s", number, o.Key.Name))
		case state == portFound:
			all = found.add(all, o, r.guardOf(o), number)
		}
	}
	found.list = oneEach(all, service.IPFamily == "IPv6")
	for i := range found.list {
		if found.list[i].Terminating {
			found.terminating++
		}
	}
	return found
}

type portState uint8

const (
	portOther   portState = iota // the slice has other ports only
	portAbsent                   // the slice has no ports, or not the number of this one
	portInvalid                  // its number is none
	portFound
)

// portIn finds the number of a Service's port in a slice.
func portIn(slice *store.EndpointSlice, port *store.ServicePort, byName bool) (int32, portState) {
	if len(slice.Ports) == 0 {
		return 0, portAbsent
	}
	state := portOther
	for i := range slice.Ports {
		p := &slice.Ports[i]
		switch {
		case p.Protocol != "TCP", byName && p.Name != port.Name:
		case !byName && (!p.HasPort || port.TargetPort == 0 || p.Port != port.TargetPort):
		case !p.HasPort:
			state = portAbsent
		case p.Port < 1 || p.Port > 65535:
			return p.Port, portInvalid
		default:
			return p.Port, portFound
		}
	}
	return 0, state
}

// slicePorts lists the ports of a slice, the first few of many.
func slicePorts(slice *store.EndpointSlice) string {
	var all []string
	for _, p := range slice.Ports {
		text := strconv.Itoa(int(p.Port)) + "/" + p.Protocol
		if p.Name != "" {
			text = fmt.Sprintf("%q (%s)", clip(p.Name), text)
		}
		all = append(all, text)
	}
	return list(all)
}

// add appends the endpoints of a slice that can be used.
func (e *endpoints) add(all []candidate, o *store.Object, guard *model.Guard, port int32) []candidate {
	slice := o.Value.(*store.EndpointSlice)
	suffix := strconv.Itoa(int(port))
	for i := range slice.Endpoints {
		from := &slice.Endpoints[i]
		if !from.Ready && (!from.Serving || !from.Terminating) {
			e.unready++
			continue
		}
		addr, err := netip.ParseAddr(from.Address)
		addr = addr.Unmap()
		switch {
		case err != nil || addr.Zone() != "":
			e.broken = append(e.broken, fmt.Sprintf("%q of %s", clip(from.Address), o.Key.Name))
			continue
		case guard.Refuses(netip.AddrPortFrom(addr, uint16(port))) != "":
			e.refused = append(e.refused, from.Address+" of "+o.Key.Name)
			continue
		}
		c := candidate{Endpoint: model.Endpoint{Address: net.JoinHostPort(addr.String(), suffix), Terminating: !from.Ready}, ipv6: addr.Is6()}
		if from.Pod != "" {
			c.pod = o.Key.Namespace + "/" + from.Pod
		}
		all = append(all, c)
	}
	return all
}

// oneEach orders endpoints by address and keeps one of each: the ready one of an address that slices list twice, and the one
// of the Service's first family for a Pod that has an address of both.
func oneEach(all []candidate, preferIPv6 bool) []model.Endpoint {
	preferred := map[string]bool{}
	for _, c := range all {
		if c.pod != "" && c.ipv6 == preferIPv6 {
			preferred[c.pod] = true
		}
	}
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.ipv6 != preferIPv6 && preferred[c.pod] })
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), boolOrder(a.Terminating, b.Terminating))
	})
	all = slices.CompactFunc(all, func(a, b candidate) bool { return a.Address == b.Address })
	if len(all) == 0 {
		return nil
	}
	made := make([]model.Endpoint, len(all))
	for i := range all {
		made[i] = all[i].Endpoint
	}
	return made
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// problems says on the Service what is wrong with its slices.
func (e *endpoints) problems(ref ServiceRef, port int) []model.Problem {
	p := &problems{key: ref.key()}
	field := indexed("spec.ports", port)
	if len(e.portless) > 0 {
		p.doubt(field, "EndpointPortMissing", fmt.Sprintf("endpoints without a number for port %s get nothing: those of EndpointSlice %s", ref.port(), list(e.portless)),
			"declare the container port in every Pod that the Service selects")
	}
	if len(e.badPorts) > 0 {
		p.wrong(field, "EndpointPortInvalid", "no port: "+list(e.badPorts), "use 1 to 65535")
	}
	if len(e.foreign) > 0 {
		p.doubt(field, "AddressTypeUnsupported", "host names are not looked up: those of EndpointSlice "+list(e.foreign), "use addressType IPv4 or IPv6")
	}
	if len(e.broken) > 0 {
		p.wrong(field, "AddressInvalid", "no IP address: "+list(e.broken), "mend the EndpointSlice")
	}
	if len(e.refused) > 0 {
		p.wrong(field, "AddressRefused", "refused, since it is an address of the host, the link, a metadata service, the API server or a group: "+list(e.refused), "use addresses of Pods")
	}
	if len(e.list) == 0 && len(p.list) == 0 {
		p.doubt(field, "NoEndpoints", "the port has no ready endpoint ("+e.summary()+"), so it answers 503", e.mend(ref))
	}
	return p.list
}

// mend says how a port without endpoints comes by some.
func (e *endpoints) mend(ref ServiceRef) string {
	switch {
	case e.slices == 0:
		return "give the Service a selector that fits Pods; in files, add an EndpointSlice with the label kubernetes.io/service-name: " + ref.Service
	case len(e.others) > 0 && e.unready == 0:
		return "give a port of the EndpointSlice the name that the Service's port has, or the number of its targetPort: it is not in " + list(e.others)
	}
	return "look at the readiness of the Service's Pods, and whether its selector fits them"
}

// summary counts what there is.
func (e *endpoints) summary() string {
	if e.slices == 0 {
		return "there is no EndpointSlice of the Service"
	}
	text := fmt.Sprintf("%d ready", len(e.list)-e.terminating)
	if e.terminating > 0 {
		text += fmt.Sprintf(", %d on their way out", e.terminating)
	}
	return text + fmt.Sprintf(", %d not ready, in %s", e.unready, count(e.slices, "EndpointSlice"))
}
