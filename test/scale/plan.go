package scale

import (
	"fmt"
	"net/netip"
)

// Load is how many objects there are. Hosts, Services and certificates must be multiples of the namespaces, endpoints of the Services.
type Load struct {
	Namespaces   int
	Hosts        int
	Ingresses    int
	Services     int
	Endpoints    int
	Certificates int
	Busy         int // hosts that requests go to all the time
}

// Full is the load of the figures; Smoke is a thousand objects.
func Full() Load {
	return Load{Namespaces: 50, Hosts: 2000, Ingresses: 10_000, Services: 5000, Endpoints: 20_000, Certificates: 500, Busy: 200}
}

// Smoke is a thousand objects: 500 Ingresses, 225 Services with an EndpointSlice each, 50 Secrets.
func Smoke() Load {
	return Load{Namespaces: 5, Hosts: 100, Ingresses: 500, Services: 225, Endpoints: 900, Certificates: 50, Busy: 20}
}

// String says what there is.
func (l Load) String() string {
	return fmt.Sprintf("%d Ingresses over %d hosts, %d Services, %d endpoints, %d certificates, in %d namespaces; requests to %d hosts",
		l.Ingresses, l.Hosts, l.Services, l.Endpoints, l.Certificates, l.Namespaces, l.Busy)
}

// Check says what cannot be spread evenly.
func (l Load) Check() error {
	for _, part := range []struct {
		name    string
		n, over int
	}{
		{"hosts", l.Hosts, l.Namespaces},
		{"Services", l.Services, l.Namespaces},
		{"certificates", l.Certificates, l.Namespaces},
		{"endpoints", l.Endpoints, l.Services},
		{"Ingresses", l.Ingresses, l.Hosts},
	} {
		if part.over < 1 || part.n < part.over || part.n%part.over != 0 {
			return fmt.Errorf("%d %s cannot be spread evenly over %d", part.n, part.name, part.over)
		}
	}
	if l.Busy < 1 || l.Busy > l.Hosts/2 {
		return fmt.Errorf("%d busy hosts of %d: at least one, at most half", l.Busy, l.Hosts)
	}
	if l.Endpoints > addresses-spares {
		return fmt.Errorf("%d endpoints are more than there are addresses", l.Endpoints)
	}
	return nil
}

// Everything of a namespace stays in it: host h is in namespace h modulo Namespaces, and so are its Ingresses, their Services and the
// certificate. Ingress i is one path of host i modulo Hosts. Numbers beyond Ingresses are further paths, for what comes and goes.

func (l Load) namespace(n int) string { return fmt.Sprintf("team-%02d", n%l.Namespaces) }

func (l Load) hostOf(ingress int) int { return ingress % l.Hosts }

func hostName(host int) string { return fmt.Sprintf("host-%04d.example.com", host) }

// path of an Ingress: the first of a host has all of it, the others a part.
func (l Load) path(ingress int) string {
	if n := ingress / l.Hosts; n > 0 {
		return fmt.Sprintf("/app-%d", n)
	}
	return "/"
}

func ingressName(ingress int) string { return fmt.Sprintf("web-%05d", ingress) }

// service of an Ingress.
func (l Load) service(ingress int) int {
	n := ingress % l.Namespaces
	return (ingress/l.Namespaces)%(l.Services/l.Namespaces)*l.Namespaces + n
}

func serviceName(service int) string { return fmt.Sprintf("svc-%04d", service) }

// certificate of a host.
func (l Load) certificate(host int) int {
	n := host % l.Namespaces
	return (host/l.Namespaces)%(l.Certificates/l.Namespaces)*l.Namespaces + n
}

func secretName(certificate int) string { return fmt.Sprintf("tls-%03d", certificate) }

// hostsOf a certificate.
func (l Load) hostsOf(certificate int) []string {
	var names []string
	for h := certificate % l.Namespaces; h < l.Hosts; h += l.Namespaces {
		if l.certificate(h) == certificate {
			names = append(names, hostName(h))
		}
	}
	return names
}

// busy reports whether an Ingress is one that requests go to.
func (l Load) busy(ingress int) bool { return l.hostOf(ingress) < l.Busy }

const (
	backendPort = 8080
	addresses   = 1<<16 - 512 // from firstAddress on
	spares      = 4096        // of them at the end, for probes
)

// backendNetwork is where endpoints are; every address of it is local.
var backendNetwork = netip.MustParsePrefix("10.200.0.0/16")

// address number n of the backends.
func address(n int) netip.Addr {
	base, n := backendNetwork.Addr().As4(), n+256
	return netip.AddrFrom4([4]byte{base[0], base[1], byte(n >> 8), byte(n)})
}

// numberOf an address of the backends; -1 when it is none.
func numberOf(a netip.Addr) int {
	if !backendNetwork.Contains(a) {
		return -1
	}
	b := a.As4()
	return int(b[2])<<8 + int(b[3]) - 256
}

func (l Load) each() int { return l.Endpoints / l.Services }

// endpoints of a Service.
func (l Load) endpoints(service int) []netip.Addr {
	all := make([]netip.Addr, l.each())
	for i := range all {
		all[i] = address(service*l.each() + i)
	}
	return all
}

// owner is the Service that an endpoint is of; -1 for a spare one.
func (l Load) owner(endpoint netip.Addr) int {
	n := numberOf(endpoint)
	if n < 0 || n >= l.Endpoints {
		return -1
	}
	return n / l.each()
}

// spare address number n, which no Service has.
func spare(n int) netip.Addr { return address(addresses - spares + n%spares) }
