package filters

import (
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
)

// Builtin lists the kinds of filter that Sluice brings along.
func Builtin() []filter.Kind {
	return []filter.Kind{proxyKind(), redirectKind()}
}

// Registry finds kinds by name. It is immutable.
type Registry struct {
	kinds map[string]*filter.Kind
	names []string // sorted
}

// NewRegistry returns a registry of the kinds; of two with one name the later counts.
func NewRegistry(kinds ...filter.Kind) *Registry {
	r := &Registry{kinds: make(map[string]*filter.Kind, len(kinds))}
	for i := range kinds {
		r.kinds[kinds[i].Name] = &kinds[i]
	}
	r.names = keys(r.kinds)
	return r
}

// Kind returns the kind of that name, or nil.
func (r *Registry) Kind(name string) *filter.Kind { return r.kinds[name] }

// Names returns the names of all kinds, sorted.
func (r *Registry) Names() []string { return r.names }

// Check returns everything that is wrong with the filters and the flow of a pipeline, judged by the built-in kinds.
func Check(p *model.Pipeline) []model.Problem { return NewRegistry(Builtin()...).Check(p) }
