package ingress

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
	"sluice.dev/sluice/model/persist"
)

// Upstreams are the ports of Services that something leads to, each with what its EndpointSlices give. They are shared by all that
// lead there. What has to be done for a change of the view is done by Flush.
type Upstreams struct {
	view      store.View
	policy    Policy
	reach     *Reach
	last      persist.Map[*model.Upstream] // for pointers to keep
	made      persist.Map[*model.Upstream]
	byName    map[string]*upstream
	byService map[string][]*upstream         // by path
	names     map[string]map[string]struct{} // of Services, by namespace
	missing   map[string]map[string]bool     // paths of Services that are missing, by namespace

	dirty   map[string]bool // names in byName
	gone    map[string]bool
	touched map[string]bool // paths of Services whose referrers have to look again
}

type upstream struct {
	name    string
	target  target
	balance *model.LoadBalance // nil: the usual one
	users   int
	fault   *fault
	notes   []model.Problem
	made    *model.Upstream
}

// NewUpstreams returns an empty set. What it makes is taken from last where that is equal.
func NewUpstreams(view store.View, policy Policy, last persist.Map[*model.Upstream]) *Upstreams {
	u := &Upstreams{
		view: view, policy: policy, reach: NewReach(view, policy), last: last, byName: map[string]*upstream{}, byService: map[string][]*upstream{}, names: map[string]map[string]struct{}{},
		missing: map[string]map[string]bool{},
		dirty:   map[string]bool{}, gone: map[string]bool{}, touched: map[string]bool{},
	}
	for o := range store.List[*store.Service](view, store.KindService) {
		u.name(o.Key, true)
	}
	return u
}

// name keeps the names of Services, and reports whether that changes them.
func (u *Upstreams) name(key model.Key, there bool) bool {
	names := u.names[key.Namespace]
	_, was := names[key.Name]
	switch {
	case was == there:
		return false
	case !there:
		if delete(names, key.Name); len(names) == 0 {
			delete(u.names, key.Namespace)
		}
	case names == nil:
		u.names[key.Namespace] = map[string]struct{}{key.Name: {}}
	default:
		names[key.Name] = struct{}{}
	}
	return true
}

// AcquireService returns the upstream of a Service port with a load balance, "namespace/name:port", for one more user.
func (u *Upstreams) AcquireService(service string, balance model.LoadBalance) string {
	ref, ok := ParseRef(service)
	if !ok {
		return u.acquire(target{ServiceRef{}, "service " + service}, model.LoadBalance{})
	}
	if balance.Policy == "roundRobin" {
		balance = model.LoadBalance{}
	}
	return u.acquire(target{ref: ref}, balance)
}

func (u *Upstreams) acquire(t target, balance model.LoadBalance) string {
	name := t.name()
	if balance != (model.LoadBalance{}) {
		name += "?" + escape(balance.Policy)
		if balance.HeaderHashKey != "" {
			name += "=" + escape(balance.HeaderHashKey)
		}
	}
	made := u.byName[name]
	if made == nil {
		made = &upstream{name: name, target: t}
		if balance != (model.LoadBalance{}) {
			made.balance = &balance
		}
		u.byName[name] = made
		if t.broken == "" {
			u.byService[t.ref.path()] = append(u.byService[t.ref.path()], made)
		}
		u.dirty[name] = true
		delete(u.gone, name)
	}
	made.users++
	return made.name
}

// Release ends one use of an upstream.
func (u *Upstreams) Release(name string) {
	made := u.byName[name]
	if made.users--; made.users > 0 {
		return
	}
	delete(u.byName, name)
	delete(u.dirty, name)
	u.gone[name] = true
	path := made.target.ref.path()
	rest := slices.DeleteFunc(u.byService[path], func(other *upstream) bool { return other == made })
	if u.byService[path] = rest; len(rest) == 0 {
		delete(u.byService, path)
		delete(u.missing[made.target.ref.Namespace], path)
	}
	u.touched[path] = true
}

// Begin moves on to another view; Change must be called for each Service and EndpointSlice that is not what it was. When the API server
// is somewhere else, everything has to look again.
func (u *Upstreams) Begin(view store.View) {
	before := u.reach.guard
	u.view, u.reach = view, NewReach(view, u.policy)
	if slices.Equal(before.Refuse, u.reach.guard.Refuse) {
		u.reach.guard = before
		return
	}
	for name := range u.byName {
		u.dirty[name] = true
	}
}

// Change notes that a Service or an EndpointSlice is not what it was.
func (u *Upstreams) Change(old *store.Object, key model.Key) {
	now := u.view.Object(key)
	if key.Kind == store.KindService {
		u.change(key.Path())
		u.touched[key.Path()] = true
		if u.name(key, now != nil) {
			u.touchMissing(key.Namespace)
		}
		return
	}
	for _, o := range []*store.Object{old, now} {
		if o == nil {
			continue
		}
		if slice, ok := o.Value.(*store.EndpointSlice); ok && slice.Service != "" {
			u.change(key.Namespace + "/" + slice.Service)
		}
	}
}

func (u *Upstreams) change(service string) {
	for _, made := range u.byService[service] {
		u.dirty[made.name] = true
	}
}

// maxSuggested is among how many Services of a namespace, or ports of a Service, the one that was probably meant is looked for.
const maxSuggested = 50

// touchMissing makes those look again that may suggest another Service.
func (u *Upstreams) touchMissing(namespace string) {
	if len(u.names[namespace]) > maxSuggested+1 {
		return
	}
	for path := range u.missing[namespace] {
		u.touched[path] = true
	}
}

// note keeps which Services are missing.
func (u *Upstreams) note(ref ServiceRef, f *fault) {
	missing := u.missing[ref.Namespace]
	switch {
	case f == nil || f.answer != reasonServiceMissing:
		delete(missing, ref.path())
	case missing == nil:
		u.missing[ref.Namespace] = map[string]bool{ref.path(): true}
	default:
		missing[ref.path()] = true
	}
}

// suggest names the Service that was probably meant.
func (u *Upstreams) suggest(ref ServiceRef, mend string) string {
	names := u.names[ref.Namespace]
	if len(names) > maxSuggested {
		return mend
	}
	if nearest := document.Nearest(ref.Service, slices.Collect(maps.Keys(names))); nearest != "" {
		return fmt.Sprintf("did you mean %q?", nearest)
	}
	return mend
}

// Flush does what changes have left to do. It returns the upstreams, the paths of Services whose referrers have to look at Problem
// again, and of those about which there is something new to say.
func (u *Upstreams) Flush() (all persist.Map[*model.Upstream], referrers, services map[string]bool) {
	referrers, services = u.touched, map[string]bool{}
	u.touched = map[string]bool{}
	edit := u.made.Edit()
	for name := range u.gone {
		edit.Delete(name)
	}
	for path := range referrers {
		services[path] = true
	}
	for name := range u.dirty {
		made := u.byName[name]
		service := made.target.ref.path()
		fault, notes := made.fault, made.notes
		u.make(made)
		edit.Set(name, made.made)
		if (fault == nil) != (made.fault == nil) || fault != nil && *fault != *made.fault {
			referrers[service] = true
		}
		if !slices.Equal(notes, made.notes) {
			services[service] = true
		}
	}
	u.byName, u.byService, u.names = roomless(u.byName), roomless(u.byService), roomless(u.names)
	u.dirty = emptied(u.dirty)
	u.gone = emptied(u.gone)
	u.made, u.last = edit.Map(), persist.Map[*model.Upstream]{}
	return u.made, referrers, services
}

// make does the work of one upstream.
func (u *Upstreams) make(made *upstream) {
	var fresh *model.Upstream
	if made.target.broken != "" {
		fresh = &model.Upstream{Name: made.name, Reason: reasonUnsupported, Detail: made.target.broken}
	} else {
		r := u.reach.resolve(made.target.ref)
		fresh = r.upstream(made.name, made.target.ref)
		if made.balance != nil {
			fresh.LoadBalance = *made.balance
		}
		made.fault, made.notes = r.fault, r.notes
		u.note(made.target.ref, r.fault)
	}
	old, found := u.made.Get(made.name)
	if !found {
		old, _ = u.last.Get(made.name)
	}
	made.made = keep(old, fresh)
}

// keep returns old when fresh says the same, so that nothing is done for it again.
func keep[T any](old, fresh *T) *T {
	if old != nil && reflect.DeepEqual(old, fresh) {
		return old
	}
	return fresh
}

// faultOf says why a reference leads nowhere; nil when it does not.
func (u *Upstreams) faultOf(ref ServiceRef) *fault {
	if made := u.byName[ref.String()]; made != nil && !u.dirty[made.name] {
		return made.fault
	}
	return u.reach.resolve(ref).fault
}

// Problem returns what is wrong with a reference to a Service, at the origin; nil when nothing is. With fields, the origin is that of
// an API object and the problem is at its name or port.
func (u *Upstreams) Problem(ref ServiceRef, at model.Origin, fields bool) *model.Problem {
	f := u.faultOf(ref)
	if f == nil {
		return nil
	}
	if fields {
		at.Field += "." + f.field
	}
	mend := f.mend
	if f.answer == reasonServiceMissing {
		mend = u.suggest(ref, mend)
	}
	return &model.Problem{Origin: at, Reason: f.reason, Message: f.message, Mend: mend, Severity: model.Error}
}

// Notes returns what is wrong with a Service itself, as far as something leads to it.
func (u *Upstreams) Notes(service string) []model.Problem {
	var notes []model.Problem
	for _, made := range u.byService[service] {
		notes = append(notes, made.notes...)
	}
	return notes
}
