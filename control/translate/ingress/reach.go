package ingress

import (
	"net/netip"
	"slices"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// Policy is what Services may lead to.
type Policy struct {
	ExternalNames bool             // wherever the names of ExternalName Services lead, but for what a model.Guard refuses
	APIServers    []netip.AddrPort // those that are known beside what a view has of default/kubernetes; nothing may lead there
}

// Reach follows references to Services in one view.
type Reach struct {
	view          store.View
	externalNames bool
	guard         *model.Guard // of what objects of an API server name
}

// NewReach returns the Reach of a view.
func NewReach(view store.View, policy Policy) *Reach {
	refuse := slices.Clone(policy.APIServers)
	for i, at := range refuse {
		refuse[i] = netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
	}
	refuse = append(refuse, apiServers(view)...)
	slices.SortFunc(refuse, netip.AddrPort.Compare)
	return &Reach{view: view, externalNames: policy.ExternalNames, guard: &model.Guard{Refuse: slices.Compact(refuse)}}
}

// guardOf is that of what an object names: the operator's own files are trusted.
func (r *Reach) guardOf(o *store.Object) *model.Guard {
	if o.File != "" {
		return nil
	}
	return r.guard
}

const apiServerPath = "default/kubernetes"

// apiServers are the addresses of the API server as it publishes them itself: those of the Service default/kubernetes, and of the
// EndpointSlice of the same name. Other slices of that Service are not its own.
func apiServers(view store.View) []netip.AddrPort {
	var all []netip.AddrPort
	add := func(text string, port int32) {
		if addr, err := netip.ParseAddr(text); err == nil && port > 0 && port < 1<<16 {
			all = append(all, netip.AddrPortFrom(addr.Unmap().WithZone(""), uint16(port)))
		}
	}
	key := ServiceRef{Namespace: "default", Service: "kubernetes"}.key()
	if service, found := store.Get[*store.Service](view, key); found && view.Object(key).File == "" {
		for _, ip := range service.ClusterIPs {
			for i := range service.Ports {
				add(ip, service.Ports[i].Port)
			}
		}
	}
	for _, o := range view.EndpointSlices(apiServerPath) {
		if o.Key.Name != key.Name || o.File != "" {
			continue
		}
		slice := o.Value.(*store.EndpointSlice)
		for i := range slice.Endpoints {
			for _, port := range slice.Ports {
				add(slice.Endpoints[i].Address, port.Port)
			}
		}
	}
	return all
}
