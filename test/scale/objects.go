package scale

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// className is the class of all Ingresses.
const className = "sluice"

// route is one rule of an Ingress.
type route struct {
	namespace, name string
	host            string
	paths           []string
	service         string
	secret          string // "" is none
}

func (r route) ingress() *netv1.Ingress {
	class, prefix := className, netv1.PathTypePrefix
	in := &netv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.name},
		Spec:       netv1.IngressSpec{IngressClassName: &class, Rules: []netv1.IngressRule{{Host: r.host}}},
	}
	http := &netv1.HTTPIngressRuleValue{}
	for _, path := range r.paths {
		http.Paths = append(http.Paths, netv1.HTTPIngressPath{
			Path: path, PathType: &prefix,
			Backend: netv1.IngressBackend{Service: &netv1.IngressServiceBackend{Name: r.service, Port: netv1.ServiceBackendPort{Name: "http"}}},
		})
	}
	in.Spec.Rules[0].HTTP = http
	if r.secret != "" {
		in.Spec.TLS = []netv1.IngressTLS{{Hosts: []string{r.host}, SecretName: r.secret}}
	}
	return in
}

// ingress number i; changed has one path more.
func (l Load) ingress(i int, changed bool) *netv1.Ingress {
	h := l.hostOf(i)
	r := route{l.namespace(h), ingressName(i), hostName(h), []string{l.path(i)}, serviceName(l.service(i)), ""}
	if i < l.Hosts {
		r.secret = secretName(l.certificate(h))
	}
	if changed {
		r.paths = append(r.paths, "/changed-"+r.name)
	}
	return r.ingress()
}

// serviceObject number s; changed has one port more.
func (l Load) serviceObject(s int, changed bool) *corev1.Service {
	made := newService(l.namespace(s), serviceName(s), changed)
	// The API server is slow to choose one, and that is not what is measured.
	made.Spec.ClusterIP = fmt.Sprintf("10.201.%d.%d", 16+s/250, 1+s%250)
	return made
}

func newService(namespace, name string, changed bool) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	if changed {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "more", Port: 81})
	}
	return s
}

// slice of Service s; changed lacks the last endpoint.
func (l Load) slice(s int, changed bool) *discoveryv1.EndpointSlice {
	all := l.endpoints(s)
	if changed && len(all) > 1 {
		all = all[:len(all)-1]
	}
	return newSlice(l.namespace(s), serviceName(s), all...)
}

func newSlice(namespace, service string, endpoints ...netip.Addr) *discoveryv1.EndpointSlice {
	name, port, protocol, ready := "http", int32(backendPort), corev1.ProtocolTCP, true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for _, a := range endpoints {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return slice
}

// pair is a certificate and its key, as PEM.
type pair struct{ chain, key []byte }

func newSecret(namespace, name string, p pair) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: p.chain, corev1.TLSPrivateKeyKey: p.key},
	}
}
