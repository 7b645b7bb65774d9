package ingress

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// controller is what one IngressController serves.
type controller struct {
	state     *State
	spec      *model.IngressController
	servers   []*model.HTTPServer
	servesTLS bool
	problems  []model.Problem // of its own fields
	owner     []string        // its name
	ruleSet   *model.RuleSet
	tlsSet    *model.TLSSet

	hosts     map[string]*hostState // by pattern
	tls       map[string]*tlsState  // likewise
	standards []*member             // those with a defaultBackend, oldest first
	redirects map[string]int        // by host: how many of its Ingresses redirect

	dirtyHosts map[string]bool
	dirtyTLS   map[string]bool
	dirtyRest  bool // the fallback

	lastHosts   persist.Map[*model.Rule] // for pointers to keep
	lastEntries persist.Map[*model.TLSEntry]
}

// setName is that of the rule set and of the TLS set of a controller; no other object can have it.
func setName(controller string) string { return controller + "/ingress" }

func newController(s *State, spec *model.IngressController) *controller {
	name := setName(spec.Name)
	c := &controller{
		state: s, spec: spec, problems: spec.Validate(), owner: []string{spec.Name},
		ruleSet: &model.RuleSet{Name: name, Kind: model.HostFirst}, tlsSet: &model.TLSSet{Name: name},
		hosts: map[string]*hostState{}, tls: map[string]*tlsState{}, redirects: map[string]int{},
		dirtyHosts: map[string]bool{}, dirtyTLS: map[string]bool{}, dirtyRest: true,
	}
	if old := s.settings.Last.RuleSets[name]; old != nil {
		c.lastHosts = old.Hosts
	}
	if old := s.settings.Last.TLSSets[name]; old != nil {
		c.lastEntries = old.Entries
	}
	c.listen("http", spec.HTTPServer)
	c.listen("https", spec.HTTPSServer)
	if spec.DefaultCertificate != "" {
		c.tlsSet.Default = []string{spec.DefaultCertificate}
		s.secret(spec.DefaultCertificate)
	}
	return c
}

// listen makes the server NAME/http or NAME/https. One that was to know its clients by their certificates must not serve without.
func (c *controller) listen(slot string, spec *model.HTTPServer) {
	if spec == nil || spec.Port == 0 || spec.CACertBase64 != "" {
		return
	}
	if spec.HTTPS && c.spec.HTTPSServer == nil {
		slot = "https"
	}
	server := *spec
	if server.Origin == (model.Origin{}) {
		server.Origin = c.spec.Origin
	}
	server.Meta = model.Meta{Kind: model.KindHTTPServer, Name: c.spec.Name + "/" + slot}
	server.Rules, server.Fallback, server.RouterKind = nil, "", model.HostFirst
	server.CertBase64, server.KeyBase64, server.Certs, server.Keys = "", "", nil, nil
	server.RuleSet = c.ruleSet.Name
	if server.HTTPS {
		server.TLSSet, c.servesTLS = c.tlsSet.Name, true
	}
	made := &server
	for _, old := range c.state.settings.Last.Servers {
		if old.Name == server.Name {
			made = keep(old, made)
		}
	}
	c.servers = append(c.servers, made)
}

func (c *controller) add(m *member, r *reading) {
	for i := range r.hosts {
		host := r.hosts[i].host
		if c.hosts[host] == nil {
			c.hosts[host] = &hostState{}
		}
		insert(&c.hosts[host].members, m)
		if r.redirect {
			c.redirects[host]++
		}
		c.dirtyHosts[host] = true
	}
	for _, claim := range m.claims {
		if c.tls[claim.host] == nil {
			c.tls[claim.host] = &tlsState{}
		}
		insert(&c.tls[claim.host].members, m)
		c.dirtyTLS[claim.host] = true
	}
	if r.standard != nil {
		insert(&c.standards, m)
		c.standardsChanged(m)
	}
}

func (c *controller) remove(m *member, r *reading) {
	for i := range r.hosts {
		host := r.hosts[i].host
		withdraw(&c.hosts[host].members, m)
		if r.redirect {
			if c.redirects[host]--; c.redirects[host] == 0 {
				delete(c.redirects, host)
			}
		}
		delete(c.hosts[host].lost, m)
		c.dirtyHosts[host] = true
	}
	for _, claim := range m.claims {
		withdraw(&c.tls[claim.host].members, m)
		c.dirtyTLS[claim.host] = true
	}
	if r.standard != nil {
		withdraw(&c.standards, m)
		c.standardsChanged(m)
	}
}

// standardsChanged lets those look again who may have got or lost the requests that nobody else wants.
func (c *controller) standardsChanged(m *member) {
	c.dirtyRest = true
	if len(c.standards) > 0 && older(m, c.standards[0]) <= 0 {
		for _, other := range c.standards {
			c.state.reports[other.object.Key] = true
		}
	}
}

// insert puts m where its age places it, once.
func insert(members *[]*member, m *member) {
	if i, found := slices.BinarySearchFunc(*members, m, older); !found {
		*members = slices.Insert(*members, i, m)
	}
}

// withdraw removes m, if it is there.
func withdraw(members *[]*member, m *member) {
	if i, found := slices.BinarySearchFunc(*members, m, older); found {
		*members = slices.Delete(*members, i, i+1)
	}
}

// flush rebuilds what changed: TLS first, since rules depend on whether their host has it.
func (c *controller) flush() {
	c.flushTLS()
	c.flushHosts()
	if c.dirtyRest {
		c.dirtyRest = false
		c.flushFallback()
	}
	c.lastHosts, c.lastEntries = persist.Map[*model.Rule]{}, persist.Map[*model.TLSEntry]{}
}

func (c *controller) flushTLS() {
	if len(c.dirtyTLS) == 0 {
		return
	}
	edit := c.tlsSet.Entries.Edit()
	for host := range c.dirtyTLS {
		_, had := edit.Get(host)
		t := c.tls[host]
		if len(t.members) == 0 {
			c.forget(t.lost)
			delete(c.tls, host)
			edit.Delete(host)
		} else {
			edit.Set(host, c.entry(host, t))
		}
		if _, has := edit.Get(host); had != has {
			c.tlsAppeared(host)
		}
	}
	c.dirtyTLS, c.tls = emptied(c.dirtyTLS), roomless(c.tls)
	if entries := edit.Map(); entries != c.tlsSet.Entries {
		set := *c.tlsSet
		set.Entries = entries
		c.tlsSet = &set
	}
}

// tlsAppeared rebuilds the hosts that redirect or do not, now that a TLS entry came or went.
func (c *controller) tlsAppeared(pattern string) {
	if suffix, wildcard := strings.CutPrefix(pattern, "*"); wildcard {
		for host := range c.redirects {
			if dot := strings.IndexByte(host, '.'); dot > 0 && host[dot:] == suffix {
				c.dirtyHosts[host] = true
			}
		}
	} else if c.redirects[pattern] > 0 {
		c.dirtyHosts[pattern] = true
	}
}

// hasTLS reports whether a host has a TLS entry, its own or that of a wildcard.
func (c *controller) hasTLS(host string) bool {
	if !c.servesTLS || host == "" {
		return false
	}
	if _, found := c.tlsSet.Entries.Get(host); found {
		return true
	}
	_, parent, found := strings.Cut(host, ".")
	if found {
		_, found = c.tlsSet.Entries.Get("*." + parent)
	}
	return found
}

func (c *controller) flushHosts() {
	if len(c.dirtyHosts) == 0 {
		return
	}
	edit := c.ruleSet.Hosts.Edit()
	for host := range c.dirtyHosts {
		h := c.hosts[host]
		if len(h.members) == 0 {
			c.forget(h.lost)
			c.releaseRule(h.rule)
			delete(c.hosts, host)
			edit.Delete(host)
			continue
		}
		c.rebuild(host, h)
		edit.Set(host, h.rule)
	}
	c.dirtyHosts, c.hosts = emptied(c.dirtyHosts), roomless(c.hosts)
	if hosts := edit.Map(); hosts != c.ruleSet.Hosts {
		set := *c.ruleSet
		set.Hosts = hosts
		c.ruleSet = &set
	}
}

// flushFallback decides what gets the requests that no rule of their host wants.
func (c *controller) flushFallback() {
	old := c.ruleSet.Fallback
	var fresh *model.Path
	switch {
	case len(c.standards) > 0:
		m := c.standards[0]
		r := c.state.read(m)
		fresh = &model.Path{Backend: pipelineName(r.standard.target, false), Origin: model.Origin{Key: m.object.Key, Field: r.standard.field}}
		c.state.acquire(r.standard.target, false)
	case c.spec.DefaultBackend != "":
		ref, ok := ParseRef(c.spec.DefaultBackend)
		if !ok {
			break // Validate has the problem
		}
		fresh = &model.Path{Backend: pipelineName(target{ref: ref}, false), Origin: model.Origin{Key: c.spec.Origin.Key, Field: "defaultBackend"}}
		c.state.acquire(target{ref: ref}, false)
	}
	if old != nil {
		c.state.release(old.Backend)
	}
	last := old
	if before := c.state.settings.Last.RuleSets[c.ruleSet.Name]; old == nil && before != nil {
		last = before.Fallback
	}
	if fresh = keepPath(last, fresh); fresh == old {
		return
	}
	set := *c.ruleSet
	set.Fallback = fresh
	c.ruleSet = &set
}

func keepPath(old, fresh *model.Path) *model.Path {
	if fresh == nil {
		return nil
	}
	return keep(old, fresh)
}

// forget lets those look again who had lost something.
func (c *controller) forget(lost map[*member][]model.Problem) {
	for m := range lost {
		c.state.reports[m.object.Key] = true
	}
}

func redirectSpec(port int) []byte {
	if port == 0 || port == 443 {
		return []byte("{}")
	}
	return []byte(`{"port":` + strconv.Itoa(port) + `}`)
}

// agePhrase says why one Ingress comes before another.
func agePhrase(winner, loser *member) string {
	name := fmt.Sprintf("Ingress %s", winner.object.Path())
	if age(winner.value.Created) < age(loser.value.Created) {
		return name + ", which is older"
	}
	return name + ", which comes first by name"
}
