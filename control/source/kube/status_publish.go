package kube

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"sluice.dev/sluice/control/store"
)

// CheckAddress says why text cannot stand in the status of an Ingress: it must be an IP address or a host name.
func CheckAddress(text string) error {
	_, err := parseAddress(text)
	return err
}

func parseAddress(text string) (address, error) {
	if ip, err := netip.ParseAddr(text); err == nil && ip.Zone() == "" {
		return address{IP: ip.String()}, nil
	}
	if strings.Trim(text, "0123456789.") == "" || len(validation.IsDNS1123Subdomain(text)) > 0 {
		return address{}, fmt.Errorf("%q is neither an IP address nor a host name", text)
	}
	return address{Hostname: text}, nil
}

// outlet knows where clients find a controller.
type outlet struct {
	writer  *Writer
	publish Publish
	feed    *feed // of the Service; nil without one
	static  []address

	mu      sync.Mutex
	service []address // the last that the Service had
	empty   bool      // it has none now, and it has been said
}

func newOutlet(w *Writer, p Publish) (*outlet, error) {
	o := &outlet{writer: w, publish: p}
	for _, text := range p.Addresses {
		a, err := parseAddress(text)
		if err != nil {
			return nil, fmt.Errorf("publish an address: %w", err)
		}
		o.static = append(o.static, a)
	}
	if p.Service == "" {
		return o, nil
	}
	namespace, name, found := strings.Cut(p.Service, "/")
	if !found || !store.ValidName(namespace) || !store.ValidName(name) {
		return nil, fmt.Errorf("publish the addresses of a Service: %q is no NAMESPACE/NAME", p.Service)
	}
	k := kind{name: store.KindService, resource: services(), cost: "the status of Ingresses is not written"}
	o.feed = newFeed(w.source.client, w.source.health, k)
	o.feed.namespace, o.feed.name, o.feed.sink = namespace, name, o
	o.feed.convert = func(object any) (any, error) {
		if s, ok := object.(*corev1.Service); ok {
			return &item{addresses: addressesOf(s)}, nil
		}
		return object, nil
	}
	return o, nil
}

// addressesOf returns where clients outside the cluster find a Service.
func addressesOf(s *corev1.Service) []address {
	var all []address
	add := func(ips ...string) {
		for _, ip := range ips {
			if ip != "" && ip != corev1.ClusterIPNone {
				all = append(all, address{IP: ip})
			}
		}
	}
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		all = append(all, address{Hostname: s.Spec.ExternalName})
	case corev1.ServiceTypeLoadBalancer:
		for i := range s.Status.LoadBalancer.Ingress {
			at := &s.Status.LoadBalancer.Ingress[i]
			if at.IP != "" || at.Hostname != "" {
				all = append(all, address{at.IP, at.Hostname})
			}
		}
		add(s.Spec.ExternalIPs...)
	default:
		if add(s.Spec.ExternalIPs...); len(all) == 0 {
			add(s.Spec.ClusterIP)
		}
	}
	return tidy(all)
}

// leases names the Leases whose holders write for the controller: one for each class.
func (o *outlet) leases() []string {
	if len(o.publish.Classes) == 0 {
		return []string{leaseName("")}
	}
	names := make([]string, len(o.publish.Classes))
	for i, class := range o.publish.Classes {
		names[i] = leaseName(class)
	}
	return names
}

// leaseOf names the Lease for the Ingresses of a class.
func (o *outlet) leaseOf(class string) string {
	if i := slices.Index(o.publish.Classes, class); i >= 0 {
		return leaseName(class)
	}
	return o.leases()[0]
}

// addresses are those that the controller has; none when they are not known, or there are none to publish.
func (o *outlet) addresses() []address {
	if o.feed == nil {
		return o.static
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.service) == 0 {
		return nil
	}
	return slices.Concat(o.service, o.static)
}

func (o *outlet) replace(all []*item) {
	if len(all) == 0 {
		o.lost("it does not exist")
		return
	}
	o.set(all[0])
}

func (o *outlet) set(i *item) {
	if len(i.addresses) == 0 {
		o.lost("it has no address")
		return
	}
	o.mu.Lock()
	same := slices.Equal(o.service, i.addresses)
	o.service, o.empty = i.addresses, false
	o.mu.Unlock()
	if !same {
		o.writer.source.states.each(o.writer.queue.Add)
	}
}

func (o *outlet) remove(string, string) { o.lost("it was deleted") }

// lost keeps what was published, and says so.
func (o *outlet) lost(why string) {
	o.mu.Lock()
	said, last := o.empty, o.service
	o.empty = true
	o.mu.Unlock()
	if said {
		return
	}
	log := o.writer.settings.Log.With("service", o.publish.Service, "why", why)
	if len(last) == 0 {
		log.Warn("the published Service gives no address, so the status of Ingresses is not written yet")
		return
	}
	log.Warn("the published Service gives no address; that of before stays in the status of Ingresses", "address", last[0].IP+last[0].Hostname)
}
