package store

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The annotations of the Ingress API that have a meaning here.
const (
	ClassAnnotation        = "kubernetes.io/ingress.class"
	DefaultClassAnnotation = "ingressclass.kubernetes.io/is-default-class"
	AnnotationPrefix       = "sluice.dev/" // of our own annotations
)

// ForeignPrefixes are those of annotations that other programs give a meaning. Objects keep only their names.
func ForeignPrefixes() []string {
	return []string{"nginx.ingress.kubernetes.io/", "easegress.ingress.kubernetes.io/"}
}

// FromAPI returns the object that holds what is used of an API object: *Ingress, *IngressClass, *Service, *EndpointSlice or
// *Secret of the Kubernetes API. It reports false for any other.
func FromAPI(object any) (*Object, bool) {
	switch o := object.(type) {
	case *netv1.Ingress:
		return fromMeta(KindIngress, &o.ObjectMeta, fromIngress(o)), true
	case *netv1.IngressClass:
		made := fromMeta(KindIngressClass, &o.ObjectMeta, fromIngressClass(o))
		made.Key.Namespace = ""
		return made, true
	case *corev1.Service:
		return fromMeta(KindService, &o.ObjectMeta, fromService(o)), true
	case *discoveryv1.EndpointSlice:
		return fromMeta(KindEndpointSlice, &o.ObjectMeta, fromEndpointSlice(o)), true
	case *corev1.Secret:
		return fromMeta(KindSecret, &o.ObjectMeta, fromSecret(o)), true
	}
	return nil, false
}

func fromMeta(kind string, m *metav1.ObjectMeta, value any) *Object {
	o := NewObject(kind, m.Namespace, m.Name, value)
	o.Version = m.ResourceVersion
	if kind != KindEndpointSlice && kind != KindIngressClass { // nobody is told about one of these
		o.UID = string(m.UID)
	}
	return o
}

func created(m *metav1.ObjectMeta) int64 {
	if m.CreationTimestamp.IsZero() {
		return 0
	}
	return m.CreationTimestamp.Unix()
}

func fromIngress(o *netv1.Ingress) *Ingress {
	in := &Ingress{Created: created(&o.ObjectMeta), Annotations: usedAnnotations(o.Annotations)}
	if c := o.Spec.IngressClassName; c != nil {
		in.Class, in.HasClass = *c, true
	}
	if b := o.Spec.DefaultBackend; b != nil {
		in.Default = new(Backend)
		*in.Default = fromBackend(b)
	}
	if n := len(o.Spec.Rules); n > 0 {
		in.Rules = make([]Rule, n)
	}
	for i := range o.Spec.Rules {
		in.Rules[i] = fromRule(&o.Spec.Rules[i])
	}
	if n := len(o.Spec.TLS); n > 0 {
		in.TLS = make([]TLS, n)
	}
	for i := range o.Spec.TLS {
		in.TLS[i] = TLS{Hosts: o.Spec.TLS[i].Hosts, Secret: o.Spec.TLS[i].SecretName}
	}
	return in
}

func fromRule(r *netv1.IngressRule) Rule {
	made := Rule{Host: r.Host}
	if r.HTTP == nil {
		return made
	}
	made.HasHTTP = true
	if n := len(r.HTTP.Paths); n > 0 {
		made.Paths = make([]Path, n)
	}
	for i := range r.HTTP.Paths {
		p := &r.HTTP.Paths[i]
		made.Paths[i] = Path{Path: known(p.Path), Backend: fromBackend(&p.Backend)}
		if p.PathType != nil {
			made.Paths[i].Type = known(string(*p.PathType))
		}
	}
	return made
}

func fromBackend(b *netv1.IngressBackend) Backend {
	var made Backend
	if s := b.Service; s != nil {
		made = Backend{HasService: true, Service: s.Name, PortName: known(s.Port.Name), Port: s.Port.Number}
	}
	if r := b.Resource; r != nil {
		made.Resource = &Resource{Kind: r.Kind, Name: r.Name}
		if r.APIGroup != nil {
			made.Resource.Group = *r.APIGroup
		}
	}
	return made
}

// usedAnnotations drops what nothing here looks at, such as the copy of the object that kubectl keeps.
func usedAnnotations(all map[string]string) map[string]string {
	var used map[string]string
	keep := func(name, value string) {
		if used == nil {
			used = map[string]string{}
		}
		used[name] = value
	}
	for name, value := range all {
		if name == ClassAnnotation || strings.HasPrefix(name, AnnotationPrefix) {
			keep(name, value)
		}
		for _, prefix := range ForeignPrefixes() {
			if strings.HasPrefix(name, prefix) {
				keep(name, "")
			}
		}
	}
	return used
}

func fromIngressClass(o *netv1.IngressClass) *IngressClass {
	return &IngressClass{
		Created:    created(&o.ObjectMeta),
		Controller: o.Spec.Controller,
		Default:    o.Annotations[DefaultClassAnnotation] == "true",
	}
}

func fromService(o *corev1.Service) *Service {
	s := &Service{Type: known(string(o.Spec.Type)), ExternalName: o.Spec.ExternalName}
	if o.Namespace == "default" && o.Name == "kubernetes" {
		s.ClusterIPs = slices.Clone(o.Spec.ClusterIPs)
		if len(s.ClusterIPs) == 0 && o.Spec.ClusterIP != "" {
			s.ClusterIPs = []string{o.Spec.ClusterIP}
		}
	}
	if len(o.Spec.IPFamilies) > 0 {
		s.IPFamily = known(string(o.Spec.IPFamilies[0]))
	}
	if n := len(o.Spec.Ports); n > 0 {
		s.Ports = make([]ServicePort, n)
	}
	for i := range o.Spec.Ports {
		p := &o.Spec.Ports[i]
		s.Ports[i] = ServicePort{Name: known(p.Name), Protocol: protocol(&p.Protocol), Port: p.Port, TargetPort: p.Port}
		if p.AppProtocol != nil {
			s.Ports[i].AppProtocol = known(*p.AppProtocol)
		}
		switch t := &p.TargetPort; {
		case t.Type == intstr.Int && t.IntVal != 0:
			s.Ports[i].TargetPort = t.IntVal
		case t.Type != intstr.Int && t.StrVal != "":
			s.Ports[i].TargetPort, s.Ports[i].TargetName = 0, known(t.StrVal)
		}
	}
	return s
}

func protocol(p *corev1.Protocol) string {
	if p == nil || *p == "" {
		return string(corev1.ProtocolTCP)
	}
	return known(string(*p))
}

func fromEndpointSlice(o *discoveryv1.EndpointSlice) *EndpointSlice {
	s := &EndpointSlice{Service: o.Labels[discoveryv1.LabelServiceName], AddressType: known(string(o.AddressType))}
	if n := len(o.Ports); n > 0 {
		s.Ports = make([]EndpointPort, n)
	}
	for i := range o.Ports {
		p := &o.Ports[i]
		s.Ports[i].Protocol = protocol(p.Protocol)
		if p.Name != nil {
			s.Ports[i].Name = known(*p.Name)
		}
		if p.Port != nil {
			s.Ports[i].Port, s.Ports[i].HasPort = *p.Port, true
		}
	}
	if n := len(o.Endpoints); n > 0 {
		s.Endpoints = make([]Endpoint, n)
	}
	for i := range o.Endpoints {
		s.Endpoints[i] = fromEndpoint(&o.Endpoints[i])
	}
	return s
}

// fromEndpoint fills in what unknown conditions mean: ready, serving like ready, not terminating.
func fromEndpoint(e *discoveryv1.Endpoint) Endpoint {
	c := &e.Conditions
	made := Endpoint{Ready: c.Ready == nil || *c.Ready}
	made.Serving = made.Ready
	if c.Serving != nil {
		made.Serving = *c.Serving
	}
	made.Terminating = c.Terminating != nil && *c.Terminating
	if len(e.Addresses) > 0 {
		made.Address = e.Addresses[0]
	}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		made.Pod = e.TargetRef.Name
	}
	return made
}

func fromSecret(o *corev1.Secret) *Secret {
	get := func(key string) []byte {
		if text, found := o.StringData[key]; found {
			return []byte(text)
		}
		value, found := o.Data[key]
		if found && value == nil {
			return []byte{}
		}
		return value
	}
	return &Secret{Type: known(string(o.Type)), Chain: get(corev1.TLSCertKey), Key: get(corev1.TLSPrivateKeyKey), CA: get("ca.crt")}
}

// known returns one shared string for what objects hold over and over again.
func known(s string) string {
	for _, k := range [...]string{
		"", "/", "http", "TCP", "Prefix", "Exact", "IPv4", "web", "https", "ImplementationSpecific", "ClusterIP", "UDP", "IPv6", "kubernetes.io/tls",
		"NodePort", "LoadBalancer", "Opaque",
	} {
		if s == k {
			return k
		}
	}
	return s
}

func itoa(n int) string { return strconv.Itoa(n) }
