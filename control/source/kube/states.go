package kube

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	netv1 "k8s.io/api/networking/v1"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// address is where clients find an Ingress: an IP address or a host name.
type address struct{ IP, Hostname string }

func compareAddresses(a, b address) int {
	return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(a.Hostname, b.Hostname))
}

// tidy orders addresses and removes those that stand twice.
func tidy(all []address) []address {
	slices.SortFunc(all, compareAddresses)
	return slices.Compact(all)
}

// ingressState is what an API server says of an Ingress beside what the store keeps.
type ingressState struct {
	version   string
	uid       string
	addresses []address // of its status, as they stand there
	manager   string    // the one of ours that wrote them
}

func stateOf(in *netv1.Ingress) *ingressState {
	s := &ingressState{version: in.ResourceVersion, uid: string(in.UID), manager: managerOf(&in.ObjectMeta)}
	for i := range in.Status.LoadBalancer.Ingress {
		at := &in.Status.LoadBalancer.Ingress[i]
		s.addresses = append(s.addresses, address{at.IP, at.Hostname})
	}
	return s
}

// states are the states of all Ingresses. Its methods may be called from any goroutine.
type states struct {
	mu      sync.Mutex
	all     map[model.Key]*ingressState
	changed func(model.Key) // is told of each change; nil: nobody is
	last    []address       // most Ingresses have the same addresses, and share one list
}

func newStates() *states { return &states{all: map[model.Key]*ingressState{}} }

// follow lets f be told of changes from now on.
func (s *states) follow(f func(model.Key)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = f
}

func (s *states) get(key model.Key) *ingressState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key]
}

// each calls f for every Ingress.
func (s *states) each(f func(model.Key)) {
	s.mu.Lock()
	keys := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	for _, key := range keys {
		f(key)
	}
}

// set notes a state; nil is that of an Ingress which is gone.
func (s *states) set(key model.Key, state *ingressState) {
	s.mu.Lock()
	s.put(key, state)
	told := s.changed
	s.mu.Unlock()
	if told != nil {
		told(key)
	}
}

func (s *states) put(key model.Key, state *ingressState) {
	if state == nil {
		if delete(s.all, key); len(s.all) == 0 {
			s.all = map[model.Key]*ingressState{} // a map keeps the room that it once needed
		}
		return
	}
	if slices.Equal(s.last, state.addresses) {
		state.addresses = s.last
	}
	s.last = state.addresses
	s.all[key] = state
}

// replace notes the states of all Ingresses of a namespace.
func (s *states) replace(namespace string, items []*item) {
	s.mu.Lock()
	fresh := make(map[model.Key]bool, len(items))
	for _, i := range items {
		fresh[i.object.Key] = true
		s.put(i.object.Key, i.ingress)
	}
	for key := range s.all {
		if (namespace == "" || key.Namespace == namespace) && !fresh[key] {
			delete(s.all, key)
		}
	}
	told := s.changed
	s.mu.Unlock()
	if told != nil {
		for key := range fresh {
			told(key)
		}
	}
}

// written notes what an answer to a write says, unless the watch has told of something newer.
func (s *states) written(in *netv1.Ingress, newer func(a, b string) bool) {
	key := model.Key{Kind: store.KindIngress, Namespace: in.Namespace, Name: in.Name}
	state := stateOf(in)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.all[key]; old != nil && old.uid == state.uid && newer(state.version, old.version) {
		s.put(key, state)
	}
}
