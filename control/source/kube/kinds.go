package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/control/store"
)

// kind is one that is read whole: in all namespaces, or in each of some.
type kind struct {
	name     string
	resource *resource
	global   bool   // it has no namespaces
	selector string // of fields
	cost     string // what is missing without it; "" when nothing can be served without
}

func (k *kind) plural() string {
	if strings.HasSuffix(k.name, "s") {
		return k.name + "es"
	}
	return k.name + "s"
}

func kinds() []kind {
	return []kind{
		{name: store.KindIngress, resource: ingresses()},
		{name: store.KindService, resource: services()},
		{name: store.KindEndpointSlice, resource: endpointSlices()},
		{
			name: store.KindSecret, resource: secrets(), selector: "type=" + string(corev1.SecretTypeTLS),
			cost: "Secrets that Ingresses name are asked for one by one; hosts without theirs show the default certificate",
		},
		{
			name: store.KindIngressClass, resource: ingressClasses(), global: true,
			cost: "only Ingresses of classes named by --ingress-class or ingressClass are served, there is no default class, and spec.controller of a class is not checked",
		},
	}
}

// item is what is kept of one object of the API.
type item struct {
	object    *store.Object
	ingress   *ingressState // of an Ingress
	addresses []address     // of the Service that is published
}

// convert keeps of an API object what is used. It is the reflectors' transformer, so that no list of whole objects is ever gathered
// from a stream.
func convert(o any) (any, error) {
	if made, ok := o.(*item); ok {
		return made, nil
	}
	object, ok := store.FromAPI(o)
	if !ok {
		return o, nil
	}
	made := &item{object: object}
	if in, ok := o.(*netv1.Ingress); ok {
		made.ingress = stateOf(in)
	}
	return made, nil
}

// managerOf returns the field manager that wrote an object's status, "" when it is not one of ours.
func managerOf(m *metav1.ObjectMeta) string {
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		if f.Subresource == "status" && strings.HasPrefix(f.Manager, leasePrefix) {
			return f.Manager
		}
	}
	return ""
}
