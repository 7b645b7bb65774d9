package store

import (
	"cmp"
	"reflect"
	"slices"

	"sluice.dev/sluice/model"
)

// The kinds of the Kubernetes API that are used; those of Sluice itself are in model.
const (
	KindIngress       = "Ingress"
	KindIngressClass  = "IngressClass"
	KindService       = "Service"
	KindEndpointSlice = "EndpointSlice"
	KindSecret        = "Secret"
)

// Object is one object as a source gave it. It is not written once it is in a store.
type Object struct {
	Key      model.Key
	Value    any             // *Ingress, *IngressClass, *Service, *EndpointSlice, *Secret, or what model.Decode returns
	Source   string          // that gave it
	File     string          // where it stands; "" for an object of an API server
	Line     int             // in File, from 1
	Version  string          // of the API server
	UID      string          // that an API server gave to an Ingress, Service or Secret
	Problems []model.Problem // found when it was read

	path string // of Key
}

// NewObject returns an object of that kind. Its path, namespace and name share one string.
func NewObject(kind, namespace, name string, value any) *Object {
	if namespace == "" {
		return &Object{Key: model.Key{Kind: kind, Name: name}, Value: value, path: name}
	}
	path := namespace + "/" + name
	return &Object{Key: model.Key{Kind: kind, Namespace: path[:len(namespace)], Name: path[len(namespace)+1:]}, Value: value, path: path}
}

// Path is that of the key.
func (o *Object) Path() string {
	if o.path == "" {
		return o.Key.Path()
	}
	return o.path
}

// place says where the object comes from.
func (o *Object) place() string {
	if o.File == "" {
		return "source " + o.Source
	}
	return o.File + ":" + itoa(o.Line)
}

// same reports whether nothing that follows from the one differs from what follows from the other.
func same(a, b *Object) bool {
	return (a.File == "") == (b.File == "") && sameProblems(a.Problems, b.Problems) && (a.Value == b.Value || reflect.DeepEqual(a.Value, b.Value))
}

func sameProblems(a, b []model.Problem) bool { return slices.Equal(a, b) }

// CompareKeys orders by kind, namespace and name.
func CompareKeys(a, b model.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
