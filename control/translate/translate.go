package translate

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate/ingress"
	"sluice.dev/sluice/control/translate/native"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// Options are what translation depends on beside the objects.
type Options struct {
	Controllers     []*model.IngressController            // serve while the view has no IngressController
	PublicHTTPSPort int                                   // by which clients reach TLS servers; 0 is 443
	CheckPipeline   func(*model.Pipeline) []model.Problem // finds what is wrong with the filters of a Pipeline object; may be nil
	// Pinned is the setting, such as --http, because of which the Controllers serve even when the view has an IngressController, which
	// then has a Problem; "" is none.
	Pinned string
	// ExternalNames says whether the names of ExternalName Services may be followed while there is no controller; controllers say it
	// themselves.
	ExternalNames bool
	APIServers    []netip.AddrPort // where the API server is reached; what objects that came from it name must not lead there
}

// policy is what Services may lead to. Controllers share what leads to a Service, so that each of them must allow external names.
func (o *Options) policy(controllers []*model.IngressController) ingress.Policy {
	allowed := o.ExternalNames
	if len(controllers) > 0 {
		allowed = !slices.ContainsFunc(controllers, func(c *model.IngressController) bool { return !c.AllowExternalNames })
	}
	return ingress.Policy{ExternalNames: allowed, APIServers: o.APIServers}
}

// controllers are those that serve a view.
func (o *Options) controllers(view store.View) []*model.IngressController {
	var found []*model.IngressController
	for _, c := range store.List[*model.IngressController](view, model.KindIngressController) {
		found = append(found, c)
	}
	if len(found) == 0 || o.Pinned != "" {
		return o.Controllers
	}
	return found
}

// Translator follows the views of one store. Its methods are not for concurrent use.
type Translator struct {
	options   Options
	view      store.View
	upstreams *ingress.Upstreams
	ingress   *ingress.State
	native    *natives
	parts     parts // of config
	config    *model.Config
	report    *status.Report
	broken    bool // an update did not come to its end
}

// parts are the elements of a config by where they come from.
type parts struct {
	ingressPipelines, nativePipelines       persist.Map[*model.Pipeline]
	ingressCertificates, nativeCertificates persist.Map[*model.Certificate]
	ingressUpstreams, nativeUpstreams       persist.Map[*model.Upstream]
}

// New returns a Translator that has seen nothing.
func New(options Options) *Translator { return &Translator{options: options} }

// Translate makes config and report of a view from nothing.
func Translate(view store.View, options Options) (*model.Config, *status.Report) {
	return New(options).Update(view, nil)
}

// Update makes config and report of the next view; changed are the keys that differ from the last one, and nil lets the
// Translator find them. The result is that of Translate, but what did not change is the same pointer as before.
func (t *Translator) Update(view store.View, changed []model.Key) (*model.Config, *status.Report) {
	if changed == nil {
		changed = store.Changes(t.view, view)
	}
	rebuild := t.config == nil || t.broken || slices.ContainsFunc(changed, func(key model.Key) bool {
		return key.Kind == store.KindIngressClass || key.Kind == model.KindIngressController
	})
	t.broken = true
	if rebuild {
		t.rebuild(view)
	} else {
		t.follow(view, changed)
	}
	t.broken = false
	return t.config, t.report
}

// rebuild makes everything anew. What comes out equal keeps its pointer.
func (t *Translator) rebuild(view store.View) {
	last := t.config
	if last == nil {
		last = &model.Config{}
	}
	t.view = view
	controllers := t.options.controllers(view)
	t.upstreams = ingress.NewUpstreams(view, t.options.policy(controllers), last.Upstreams)
	t.ingress = ingress.New(view, ingress.Settings{
		Controllers: controllers, PublicHTTPSPort: t.options.PublicHTTPSPort, Upstreams: t.upstreams, Last: last,
	})
	t.native = newNatives(t.upstreams, t.options.CheckPipeline)
	t.native.update(view, nil)
	t.parts = parts{}
	keys := map[model.Key]bool{}
	for o := range view.All() {
		keys[o.Key] = true
	}
	for e := range t.report.All() {
		keys[e.Key] = true
	}
	t.finish(&model.Config{}, last, keys)
}

// follow makes what the changes ask for.
func (t *Translator) follow(view store.View, changed []model.Key) {
	keys := make(map[model.Key]bool, len(changed))
	t.upstreams.Begin(view)
	for _, key := range changed {
		keys[key] = true
		if key.Kind == store.KindService || key.Kind == store.KindEndpointSlice {
			t.upstreams.Change(t.view.Object(key), key)
		}
	}
	t.view = view
	t.ingress.Update(view, changed)
	t.native.update(view, changed)
	t.finish(t.config, t.config, keys)
}

// finish assembles the config from its parts, those that changed laid over base, and says what is to be said about the objects. Of
// what is equal in last, it keeps the pointer.
func (t *Translator) finish(base, last *model.Config, keys map[model.Key]bool) {
	upstreams, referrers, services := t.upstreams.Flush()
	for service := range referrers {
		t.ingress.Touch(service)
	}
	for service := range services {
		keys[serviceKey(service)] = true
	}
	for _, key := range t.ingress.Changed() {
		keys[key] = true
	}
	t.native.remake(last)
	next := t.native.made
	next.ingressPipelines, next.ingressCertificates, next.ingressUpstreams = t.ingress.Pipelines(), t.ingress.Certificates(), upstreams
	config := &model.Config{
		RuleSets: map[string]*model.RuleSet{}, TLSSets: map[string]*model.TLSSet{},
		Pipelines:    lay(lay(base.Pipelines, t.parts.ingressPipelines, next.ingressPipelines), t.parts.nativePipelines, next.nativePipelines),
		Certificates: lay(lay(base.Certificates, t.parts.ingressCertificates, next.ingressCertificates), t.parts.nativeCertificates, next.nativeCertificates),
		Upstreams:    lay(lay(base.Upstreams, t.parts.ingressUpstreams, next.ingressUpstreams), t.parts.nativeUpstreams, next.nativeUpstreams),
	}
	t.parts = next
	t.ingress.Parts(config)
	t.native.add(config)
	lost := t.settleServers(config)
	t.native.settle(config)
	if t.config == nil || !sameConfig(t.config, config) {
		t.config = config
	}
	t.say(keys, lost)
}

// lay makes the changes between two versions of a part to the whole.
func lay[V comparable](whole, old, now persist.Map[V]) persist.Map[V] {
	if whole == old {
		return now // the whole is nothing but this part
	}
	var none V
	edit := whole.Edit()
	for name, pair := range persist.Diff(old, now) {
		if pair[1] == none {
			edit.Delete(name)
		} else {
			edit.Set(name, pair[1])
		}
	}
	return edit.Map()
}

// settleServers orders the servers and takes those away whose port another has. One of a controller keeps its port, so that no
// HTTPServer object takes the traffic of all Ingresses by its name; among equals it is the first by name.
func (t *Translator) settleServers(config *model.Config) map[model.Origin]model.Problem {
	slices.SortStableFunc(config.Servers, func(a, b *model.HTTPServer) int { return cmp.Compare(a.Name, b.Name) })
	lost := map[model.Origin]model.Problem{}
	ofController := func(s *model.HTTPServer) bool { return s.Origin.Key.Kind == model.KindIngressController }
	first := slices.DeleteFunc(slices.Clone(config.Servers), func(s *model.HTTPServer) bool { return !ofController(s) })
	rest := slices.DeleteFunc(slices.Clone(config.Servers), ofController)
	conflicts := native.Conflicts(append(first, rest...))
	config.Servers = slices.DeleteFunc(config.Servers, func(s *model.HTTPServer) bool {
		problem, found := conflicts[s]
		if found {
			lost[s.Origin] = problem
		}
		return found
	})
	return lost
}

func sameConfig(a, b *model.Config) bool {
	return slices.Equal(a.Servers, b.Servers) && maps.Equal(a.RuleSets, b.RuleSets) && maps.Equal(a.TLSSets, b.TLSSets) &&
		a.Pipelines == b.Pipelines && a.Upstreams == b.Upstreams && a.Certificates == b.Certificates
}
