package ingress

import (
	"cmp"
	"slices"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// Settings are what a State is made with.
type Settings struct {
	Controllers     []*model.IngressController
	PublicHTTPSPort int // by which clients reach TLS servers; 0 is 443
	Upstreams       *Upstreams
	Last            *model.Config // for pointers to keep
}

// State is what the Ingresses of a view became, and what is needed to follow its changes. The controllers and the IngressClasses are
// those of its beginning.
type State struct {
	settings    Settings
	view        store.View
	classes     *Classes
	upstreams   *Upstreams
	controllers []*controller

	members      map[string]*member // by path: the Ingresses that some controller serves
	byService    map[string][]*member
	bySecret     map[string][]*member
	certificates map[string]*certificate // by path of the Secret
	pipelines    map[string]*pipeline

	// What the current update has changed.
	readings     map[*member]*reading
	reports      map[model.Key]bool // the objects to report on anew
	newPipelines map[string]bool
	newSecrets   map[string]bool

	fine []status.Condition // of an Ingress without faults

	madePipelines    persist.Map[*model.Pipeline]
	madeCertificates persist.Map[*model.Certificate]
}

// member is an Ingress that is served.
type member struct {
	object *store.Object
	value  *store.Ingress
	claims []tlsClaim // ordered by host
	owners []*controller
}

// tlsClaim is one host of one entry of spec.tls.
type tlsClaim struct {
	host string
	item int
}

type pipeline struct {
	made     *model.Pipeline
	users    int
	upstream string
}

// older orders by age, then by namespace and name.
func older(a, b *member) int {
	return cmp.Or(cmp.Compare(age(a.value.Created), age(b.value.Created)), store.CompareKeys(a.object.Key, b.object.Key))
}

// New returns the state for a view.
func New(view store.View, settings Settings) *State {
	if settings.Last == nil {
		settings.Last = &model.Config{}
	}
	s := &State{
		settings: settings, view: view, classes: NewClasses(view), upstreams: settings.Upstreams,
		members: map[string]*member{}, byService: map[string][]*member{}, bySecret: map[string][]*member{},
		certificates: map[string]*certificate{}, pipelines: map[string]*pipeline{}, fine: conditions(nil),
		readings: map[*member]*reading{}, reports: map[model.Key]bool{}, newPipelines: map[string]bool{}, newSecrets: map[string]bool{},
	}
	for _, spec := range settings.Controllers {
		s.controllers = append(s.controllers, newController(s, spec))
	}
	var all []*member
	for o, in := range store.List[*store.Ingress](view, store.KindIngress) {
		all = append(all, &member{object: o, value: in})
		s.reports[o.Key] = true
	}
	slices.SortFunc(all, older)
	for _, m := range all {
		s.add(m)
	}
	s.flush()
	s.settings.Last = &model.Config{}
	return s
}

// Update follows the changes of Ingresses, Services, EndpointSlices and Secrets to another view. The upstreams must have been told of
// them before.
func (s *State) Update(view store.View, keys []model.Key) {
	s.view = view
	for _, key := range keys {
		switch key.Kind {
		case store.KindIngress:
			s.reports[key] = true
			path := key.Path()
			if old := s.members[path]; old != nil {
				s.remove(old)
			}
			if in, found := store.Get[*store.Ingress](view, key); found {
				s.add(&member{object: view.Object(key), value: in})
			}
		case store.KindSecret:
			s.secretChanged(key)
		}
	}
	s.flush()
}

// add gives an Ingress to the controllers that claim it.
func (s *State) add(m *member) {
	for _, c := range s.controllers {
		if s.classes.Claim(c.spec, m.object, m.value).Ours {
			m.owners = append(m.owners, c)
		}
	}
	if len(m.owners) == 0 {
		return
	}
	s.members[m.object.Path()] = m
	s.reports[m.object.Key] = true
	r := s.read(m)
	for _, path := range r.services() {
		s.byService[path] = append(s.byService[path], m)
	}
	for _, path := range r.secrets() {
		s.bySecret[path] = append(s.bySecret[path], m)
		s.secret(path)
	}
	m.claims = s.claims(r)
	for _, c := range m.owners {
		c.add(m, r)
	}
}

func (s *State) remove(m *member) {
	r := s.read(m)
	for _, c := range m.owners {
		c.remove(m, r)
	}
	for _, path := range r.services() {
		drop(s.byService, path, m)
	}
	for _, path := range r.secrets() {
		drop(s.bySecret, path, m)
		s.newSecrets[path] = true
	}
	delete(s.members, m.object.Path())
	delete(s.readings, m)
}

func drop(index map[string][]*member, path string, m *member) {
	rest := slices.DeleteFunc(index[path], func(other *member) bool { return other == m })
	if index[path] = rest; len(rest) == 0 {
		delete(index, path)
	}
}

// read returns what an Ingress says, which is not kept beyond the update.
func (s *State) read(m *member) *reading {
	r := s.readings[m]
	if r == nil {
		r = read(m.object, m.value)
		s.readings[m] = r
	}
	return r
}

// services are the paths of the Services that an Ingress names.
func (r *reading) services() []string {
	var paths []string
	for ref := range r.refs {
		if ref.target.broken == "" {
			paths = append(paths, ref.target.ref.path())
		}
	}
	return distinct(paths)
}

// secrets are the paths of the Secrets that an Ingress names.
func (r *reading) secrets() []string {
	var paths []string
	for i := range r.tls {
		if path := r.tls[i].secret; path != "" {
			paths = append(paths, path)
		}
	}
	return distinct(paths)
}

// claims are the hosts that an Ingress wants TLS for. An entry without hosts means the names of its certificate, or, while that cannot be
// read, the hosts of the Ingress, so that a certificate that was good before stays in use.
func (s *State) claims(r *reading) []tlsClaim {
	var claims []tlsClaim
	for i := range r.tls {
		item := &r.tls[i]
		hosts := item.hosts
		if len(hosts) == 0 && !item.none {
			hosts = s.certificates[item.secret].hostsFor(r)
		}
		for _, host := range hosts {
			claims = append(claims, tlsClaim{host, i})
		}
	}
	slices.SortStableFunc(claims, func(a, b tlsClaim) int { return cmp.Compare(a.host, b.host) })
	return claims
}

func (c *certificate) hostsFor(r *reading) []string {
	if c != nil && c.made != nil && c.made.Broken == "" {
		return c.hosts
	}
	var hosts []string
	for i := range r.hosts {
		if host := r.hosts[i].host; host != "" {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// secret returns the certificate of a Secret, read once.
func (s *State) secret(path string) *certificate {
	c := s.certificates[path]
	if c == nil {
		c = newCertificate(s.view, path)
		s.certificates[path] = c
		s.newSecrets[path] = true
	}
	return c
}

func (s *State) secretChanged(key model.Key) {
	path := key.Path()
	if s.certificates[path] == nil {
		return
	}
	delete(s.certificates, path)
	s.secret(path)
	for _, m := range slices.Clone(s.bySecret[path]) {
		s.reports[m.object.Key] = true
		s.remove(m)
		s.add(&member{object: m.object, value: m.value})
	}
}

// flush does what the changes have left to do.
func (s *State) flush() {
	for _, c := range s.controllers {
		c.flush()
	}
	s.flushPipelines()
	s.flushCertificates()
	s.readings = emptied(s.readings)
	s.members, s.byService, s.bySecret = roomless(s.members), roomless(s.byService), roomless(s.bySecret)
	s.certificates, s.pipelines = roomless(s.certificates), roomless(s.pipelines)
}

// acquire returns the pipeline that forwards to a target, for one more user.
func (s *State) acquire(t target, redirect bool) string {
	name := pipelineName(t, redirect)
	p := s.pipelines[name]
	if p == nil {
		p = &pipeline{upstream: s.upstreams.acquire(t, model.LoadBalance{})}
		if !redirect {
			name = p.upstream // one text for both
		}
		p.made = s.newPipeline(name, p.upstream, redirect)
		p.made.Origin = model.Origin{Key: t.ref.key()}
		old, found := s.madePipelines.Get(name)
		if !found {
			old, _ = s.settings.Last.Pipelines.Get(name)
		}
		p.made = keep(old, p.made)
		s.pipelines[name] = p
		s.newPipelines[name] = true
	}
	p.users++
	return p.made.Name
}

func (s *State) release(name string) {
	p := s.pipelines[name]
	if p.users--; p.users == 0 {
		s.upstreams.Release(p.upstream)
		delete(s.pipelines, name)
		s.newPipelines[name] = true
	}
}

func pipelineName(t target, redirect bool) string {
	if redirect {
		return t.name() + redirectSuffix
	}
	return t.name()
}

func (s *State) newPipeline(name, upstream string, redirect bool) *model.Pipeline {
	proxy := model.Filter{Name: "proxy", Kind: model.KindProxy, Proxy: &model.Proxy{Pools: []*model.Pool{{Service: upstream}}}}
	p := &model.Pipeline{Meta: model.Meta{Kind: model.KindPipeline, Name: name}}
	if redirect {
		p.Filters = append(p.Filters, model.Filter{Name: "redirect", Kind: "HTTPSRedirect", Raw: redirectSpec(s.settings.PublicHTTPSPort)})
	}
	p.Filters = append(p.Filters, proxy)
	return p
}

func (s *State) flushPipelines() {
	if len(s.newPipelines) == 0 {
		return
	}
	edit := s.madePipelines.Edit()
	for name := range s.newPipelines {
		if p := s.pipelines[name]; p != nil {
			edit.Set(name, p.made)
		} else {
			edit.Delete(name)
		}
	}
	s.madePipelines = edit.Map()
	s.newPipelines = emptied(s.newPipelines)
}

// flushCertificates forgets the Secrets that nothing names any more.
func (s *State) flushCertificates() {
	if len(s.newSecrets) == 0 {
		return
	}
	edit := s.madeCertificates.Edit()
	for path := range s.newSecrets {
		used := len(s.bySecret[path]) > 0 || slices.ContainsFunc(s.controllers, func(c *controller) bool { return c.spec.DefaultCertificate == path })
		if !used {
			delete(s.certificates, path)
		}
		s.reports[secretKey(path)] = true
		c := s.certificates[path]
		if c == nil || c.made == nil {
			edit.Delete(path)
			continue
		}
		old, found := edit.Get(path)
		if !found {
			old, _ = s.settings.Last.Certificates.Get(path)
		}
		c.made = keep(old, c.made)
		edit.Set(path, c.made)
	}
	s.madeCertificates = edit.Map()
	s.newSecrets = emptied(s.newSecrets)
}

// Pipelines returns the pipelines that the rules name.
func (s *State) Pipelines() persist.Map[*model.Pipeline] { return s.madePipelines }

// Certificates returns the certificates of the Secrets that are named.
func (s *State) Certificates() persist.Map[*model.Certificate] { return s.madeCertificates }

// Parts adds the servers, rule sets and TLS sets of the controllers to a config.
func (s *State) Parts(config *model.Config) {
	for _, c := range s.controllers {
		config.Servers = append(config.Servers, c.servers...)
		if len(c.servers) > 0 {
			config.RuleSets[c.ruleSet.Name] = c.ruleSet
		}
		if c.servesTLS {
			config.TLSSets[c.tlsSet.Name] = c.tlsSet
		}
	}
}
