package store

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// View is the objects of a store at one time. It never changes; the zero value is empty.
type View struct {
	kinds    map[string]persist.Map[*Object] // by path
	slices   persist.Map[*group]             // EndpointSlices by the path of their Service, ordered by name
	shadowed persist.Map[*group]             // by String of their key: objects that another one of that key hides
}

// group is a list that can stand in a persist.Map.
type group struct{ objects []*Object }

// Object returns the object with that key, nil when there is none.
func (v View) Object(key model.Key) *Object {
	o, _ := v.kinds[key.Kind].Get(key.Path())
	return o
}

// Get returns the value of the object with that key, when there is one of that type.
func Get[T any](v View, key model.Key) (value T, found bool) {
	o := v.Object(key)
	if o == nil {
		return value, false
	}
	value, found = o.Value.(T)
	return value, found
}

// List yields the objects of a kind whose value has that type, in the order of their paths.
func List[T any](v View, kind string) iter.Seq2[*Object, T] {
	return func(yield func(*Object, T) bool) {
		for _, o := range v.kinds[kind].All() {
			if value, ok := o.Value.(T); ok && !yield(o, value) {
				return
			}
		}
	}
}

// Len is the number of objects of a kind.
func (v View) Len(kind string) int { return v.kinds[kind].Len() }

// All yields every object, ordered by key.
func (v View) All() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		for _, kind := range slices.Sorted(maps.Keys(v.kinds)) {
			for _, o := range v.kinds[kind].All() {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// EndpointSlices returns the slices of a Service, given by its path, ordered by name.
func (v View) EndpointSlices(service string) []*Object {
	if g, found := v.slices.Get(service); found {
		return g.objects
	}
	return nil
}

// Shadowed returns the objects that are not in the view since another of the same key comes before them.
func (v View) Shadowed(key model.Key) []*Object {
	if v.shadowed.Len() == 0 {
		return nil
	}
	if g, found := v.shadowed.Get(key.String()); found {
		return g.objects
	}
	return nil
}

// Problems returns what is wrong with an object as a thing of its own: what was found when it was read, and which other
// objects claim its name.
func (v View) Problems(key model.Key) []model.Problem {
	o := v.Object(key)
	if o == nil {
		return nil
	}
	problems := o.Problems
	for _, loser := range v.Shadowed(key) {
		problems = append(problems[:len(problems):len(problems)], model.Problem{
			Origin: model.Origin{Key: key}, Reason: "DuplicateObject", Severity: model.Error,
			Message: "the object stands twice: the one of " + o.place() + " is used, the one of " + loser.place() + " is not",
			Mend:    "remove or rename one of them",
		})
	}
	return problems
}

// Changes returns the keys whose objects differ between two views, ordered.
func Changes(old, new View) []model.Key {
	var keys []model.Key
	for kind := range kindsOf(old, new) {
		for _, pair := range persist.Diff(old.kinds[kind], new.kinds[kind]) {
			if pair[0] != nil && pair[1] != nil && same(pair[0], pair[1]) && (samePlace(pair[0], pair[1]) || len(new.Shadowed(pair[0].Key)) == 0) {
				continue
			}
			keys = append(keys, cmp.Or(pair[0], pair[1]).Key)
		}
	}
	for _, pair := range persist.Diff(old.shadowed, new.shadowed) {
		if pair[0] != nil && pair[1] != nil && slices.EqualFunc(pair[0].objects, pair[1].objects, samePlace) {
			continue
		}
		keys = append(keys, cmp.Or(pair[0], pair[1]).objects[0].Key)
	}
	slices.SortFunc(keys, CompareKeys)
	return slices.Compact(keys)
}

func kindsOf(views ...View) map[string]bool {
	kinds := map[string]bool{}
	for _, v := range views {
		for kind := range v.kinds {
			kinds[kind] = true
		}
	}
	return kinds
}

// editor makes the next view.
type editor struct {
	view   View
	kinds  map[string]*persist.Editor[*Object]
	slices *persist.Editor[*group]
}

func (v View) edit() *editor {
	return &editor{view: v, kinds: map[string]*persist.Editor[*Object]{}, slices: v.slices.Edit()}
}

func (e *editor) of(kind string) *persist.Editor[*Object] {
	if e.kinds[kind] == nil {
		m := e.view.kinds[kind]
		e.kinds[kind] = m.Edit()
	}
	return e.kinds[kind]
}

func (e *editor) get(key model.Key) *Object {
	o, _ := e.of(key.Kind).Get(key.Path())
	return o
}

// set puts the object there and, for nil, removes what is there.
func (e *editor) set(key model.Key, o *Object) {
	if key.Kind == KindEndpointSlice {
		e.unlink(e.get(key))
	}
	if o == nil {
		e.of(key.Kind).Delete(key.Path())
		return
	}
	e.of(key.Kind).Set(o.Path(), o)
	if key.Kind == KindEndpointSlice {
		e.link(o)
	}
}

// serviceOf is the path of the Service that a slice belongs to, "" when it belongs to none.
func serviceOf(o *Object) string {
	if o == nil {
		return ""
	}
	s, ok := o.Value.(*EndpointSlice)
	if !ok || s.Service == "" {
		return ""
	}
	return o.Key.Namespace + "/" + s.Service
}

func (e *editor) group(service string) []*Object {
	if g, found := e.slices.Get(service); found {
		return g.objects
	}
	return nil
}

func (e *editor) unlink(o *Object) {
	service := serviceOf(o)
	if service == "" {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(e.group(service)), func(other *Object) bool { return other.Key == o.Key })
	if len(rest) == 0 {
		e.slices.Delete(service)
		return
	}
	e.slices.Set(service, &group{rest})
}

func (e *editor) link(o *Object) {
	service := serviceOf(o)
	if service == "" {
		return
	}
	list := e.group(service)
	i, _ := slices.BinarySearchFunc(list, o.Key, func(other *Object, key model.Key) int { return CompareKeys(other.Key, key) })
	grown := make([]*Object, 0, len(list)+1)
	e.slices.Set(service, &group{append(append(append(grown, list[:i]...), o), list[i:]...)})
}

func (e *editor) shadow(key model.Key, losers []*Object) {
	if len(losers) == 0 {
		e.view.shadowed = e.view.shadowed.Without(key.String())
		return
	}
	e.view.shadowed = e.view.shadowed.With(key.String(), &group{losers})
}

func (e *editor) done() View {
	v := e.view
	v.slices = e.slices.Map()
	v.kinds = maps.Clone(v.kinds)
	if v.kinds == nil {
		v.kinds = map[string]persist.Map[*Object]{}
	}
	for kind, edited := range e.kinds {
		v.kinds[kind] = edited.Map()
	}
	return v
}
