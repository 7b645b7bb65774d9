package translate

import (
	"maps"
	"reflect"
	"slices"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate/ingress"
	"sluice.dev/sluice/control/translate/native"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// natives are the HTTPServer and Pipeline objects and what became of them.
type natives struct {
	services *ingress.Upstreams
	check    func(*model.Pipeline) []model.Problem
	servers  map[string]*nativeObject
	flows    map[string]*nativeObject
	dirty    bool // some object changed

	made    parts
	missing map[model.Key][]model.Problem // pipelines that servers name
}

// nativeObject is what one object became.
type nativeObject struct {
	server   *native.FromServer
	flow     *native.FromPipeline
	uses     []use
	problems []model.Problem // of the object by itself
}

// use is a Service that an object refers to.
type use struct {
	upstream string
	service  string
	at       model.Origin
}

func newNatives(services *ingress.Upstreams, check func(*model.Pipeline) []model.Problem) *natives {
	return &natives{services: services, check: check, servers: map[string]*nativeObject{}, flows: map[string]*nativeObject{}, dirty: true}
}

// update translates the objects that changed; nil is all.
func (n *natives) update(view store.View, changed []model.Key) {
	if changed == nil {
		for _, kind := range []string{model.KindHTTPServer, model.KindPipeline} {
			for o := range store.List[any](view, kind) {
				changed = append(changed, o.Key)
			}
		}
	}
	for _, key := range changed {
		switch key.Kind {
		case model.KindHTTPServer:
			s, _ := store.Get[*model.HTTPServer](view, key)
			n.replace(n.servers, key.Name, n.fromServer(s))
		case model.KindPipeline:
			p, _ := store.Get[*model.Pipeline](view, key)
			n.replace(n.flows, key.Name, n.fromPipeline(p))
		}
	}
}

func (n *natives) replace(objects map[string]*nativeObject, name string, fresh *nativeObject) {
	n.dirty = true
	if old := objects[name]; old != nil {
		for _, u := range old.uses {
			n.services.Release(u.upstream)
		}
	}
	if objects[name] = fresh; fresh == nil {
		delete(objects, name)
	}
}

func (n *natives) fromServer(s *model.HTTPServer) *nativeObject {
	if s == nil {
		return nil
	}
	o := &nativeObject{}
	o.server = native.Server(s, n.uses(o))
	o.problems = o.server.Problems
	return o
}

func (n *natives) fromPipeline(p *model.Pipeline) *nativeObject {
	if p == nil {
		return nil
	}
	o := &nativeObject{}
	o.flow = native.Pipeline(p, n.uses(o))
	o.problems = o.flow.Problems
	if n.check != nil {
		o.problems = append(o.problems, n.check(p)...)
	}
	return o
}

// uses notes the Services that an object refers to. What is wrong with them changes by itself, so that is asked for when the
// report is made.
func (n *natives) uses(o *nativeObject) native.Services {
	return func(service string, balance model.LoadBalance, at model.Origin) (string, []model.Problem) {
		name := n.services.AcquireService(service, balance)
		o.uses = append(o.uses, use{name, service, at})
		return name, nil
	}
}

// remake builds the parts from the objects, keeping what is equal in last.
func (n *natives) remake(last *model.Config) {
	if !n.dirty {
		return
	}
	n.dirty = false
	pipelines, upstreams, certificates := (persist.Map[*model.Pipeline]{}).Edit(), (persist.Map[*model.Upstream]{}).Edit(), (persist.Map[*model.Certificate]{}).Edit()
	set := func(p []*model.Pipeline, u []*model.Upstream) {
		for _, made := range p {
			pipelines.Set(made.Name, keep(last.Pipelines, made.Name, made))
		}
		for _, made := range u {
			upstreams.Set(made.Name, keep(last.Upstreams, made.Name, made))
		}
	}
	for _, o := range n.flows {
		set([]*model.Pipeline{o.flow.Pipeline}, o.flow.Upstreams)
	}
	for _, o := range n.servers {
		set(o.server.Pipelines, o.server.Upstreams)
		for _, made := range o.server.Certificates {
			certificates.Set(made.Name, keep(last.Certificates, made.Name, made))
		}
		o.keep(last)
	}
	n.made.nativePipelines, n.made.nativeUpstreams, n.made.nativeCertificates = pipelines.Map(), upstreams.Map(), certificates.Map()
}

// keep returns what last has under a name when it is equal.
func keep[T any](last persist.Map[*T], name string, fresh *T) *T {
	old, _ := last.Get(name)
	return kept(old, fresh)
}

func kept[T any](old, fresh *T) *T {
	if old != nil && fresh != nil && reflect.DeepEqual(old, fresh) {
		return old
	}
	return fresh
}

// keep takes from last what is equal of a server.
func (o *nativeObject) keep(last *model.Config) {
	s := o.server
	if s.Server != nil {
		if i := slices.IndexFunc(last.Servers, func(old *model.HTTPServer) bool { return old.Name == s.Server.Name }); i >= 0 {
			s.Server = kept(last.Servers[i], s.Server)
		}
	}
	if old := last.RuleSets[s.RuleSet.Name]; old != nil && sameRules(old, s.RuleSet) {
		s.RuleSet = old
	}
	if s.TLSSet == nil {
		return
	}
	if old := last.TLSSets[s.TLSSet.Name]; old != nil && sameTLS(old, s.TLSSet) {
		s.TLSSet = old
	}
}

// sameRules compares rule sets, whose hosts are in maps of which equal ones may be built differently. Where they differ, the rules that do not
// are taken over.
func sameRules(old, fresh *model.RuleSet) bool {
	hosts, changed := old.Hosts.Edit(), false
	for host, pair := range persist.Diff(old.Hosts, fresh.Hosts) {
		switch {
		case pair[1] == nil:
			hosts.Delete(host)
		case pair[0] == nil || !reflect.DeepEqual(pair[0], pair[1]):
			hosts.Set(host, pair[1])
		default:
			continue
		}
		changed = true
	}
	fresh.Hosts = hosts.Map()
	return !changed && old.Kind == fresh.Kind && reflect.DeepEqual(old.Rules, fresh.Rules) && reflect.DeepEqual(old.Fallback, fresh.Fallback)
}

func sameTLS(old, fresh *model.TLSSet) bool {
	for _, pair := range persist.Diff(old.Entries, fresh.Entries) {
		if pair[0] == nil || pair[1] == nil || !reflect.DeepEqual(pair[0], pair[1]) {
			return false
		}
	}
	return slices.Equal(old.Default, fresh.Default) && slices.Equal(old.ClientCAs, fresh.ClientCAs)
}

// add adds the servers to a config.
func (n *natives) add(config *model.Config) {
	for _, name := range slices.Sorted(maps.Keys(n.servers)) {
		s := n.servers[name].server
		if s.Server == nil {
			continue
		}
		config.Servers = append(config.Servers, s.Server)
		config.RuleSets[s.RuleSet.Name] = s.RuleSet
		if s.TLSSet != nil {
			config.TLSSets[s.TLSSet.Name] = s.TLSSet
		}
	}
}

// settle takes the rules of servers away that the config has not, and looks which pipelines are missing.
func (n *natives) settle(config *model.Config) {
	n.missing = map[model.Key][]model.Problem{}
	for _, name := range slices.Sorted(maps.Keys(n.servers)) {
		s := n.servers[name].server
		if s.Server != nil && !slices.Contains(config.Servers, s.Server) {
			delete(config.RuleSets, s.RuleSet.Name)
			delete(config.TLSSets, name)
		}
		exists := func(pipeline string) bool { _, found := config.Pipelines.Get(pipeline); return found }
		for _, p := range native.Missing(s.Backends, exists, slices.Collect(maps.Keys(n.flows))) {
			n.missing[p.Origin.Key] = append(n.missing[p.Origin.Key], p)
		}
	}
}

// problemsOf is what is wrong with an object of these kinds.
func (n *natives) problemsOf(key model.Key) []model.Problem {
	o := n.flows[key.Name]
	if key.Kind == model.KindHTTPServer {
		o = n.servers[key.Name]
	}
	if o == nil {
		return nil
	}
	found := slices.Concat(o.problems, n.missing[key])
	for _, u := range o.uses {
		if ref, ok := ingress.ParseRef(u.service); ok {
			if p := n.services.Problem(ref, u.at, false); p != nil {
				found = append(found, *p)
			}
		}
	}
	return found
}

// keys are those of all objects of these kinds.
func (n *natives) keys() []model.Key {
	var keys []model.Key
	for name := range n.servers {
		keys = append(keys, model.Key{Kind: model.KindHTTPServer, Name: name})
	}
	for name := range n.flows {
		keys = append(keys, model.Key{Kind: model.KindPipeline, Name: name})
	}
	return keys
}
