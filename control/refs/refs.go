// Package refs is the one place that decides whether an object may refer to another.
package refs

import "sluice.dev/sluice/model"

// Grant lets objects of one kind in one namespace refer to objects of another kind in the grant's own namespace.
type Grant struct {
	Namespace     string // of the grant, and of what it allows to refer to
	FromNamespace string
	FromKind      string
	ToKind        string
	ToName        string // "" is every name
}

// Allowed reports whether the object from may refer to the object to: within one namespace always, across namespaces by a
// grant, and always for an object without a namespace, which only operators can make.
func Allowed(from, to model.Key, grants []Grant) bool {
	if from.Namespace == to.Namespace || from.Namespace == "" {
		return true
	}
	for _, g := range grants {
		if g.Namespace == to.Namespace && g.FromNamespace == from.Namespace && g.FromKind == from.Kind && g.ToKind == to.Kind && (g.ToName == "" || g.ToName == to.Name) {
			return true
		}
	}
	return false
}
