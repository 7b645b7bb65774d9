package native

import (
	"slices"
	"strings"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// Translate makes a Config of servers and pipelines from nothing. The upstreams of Services are the caller's to add. Of two
// servers that want one port the first by name has it, of two pipelines of one name the first in the list.
func Translate(servers []*model.HTTPServer, pipelines []*model.Pipeline, services Services) (*model.Config, []model.Problem) {
	c := &model.Config{RuleSets: map[string]*model.RuleSet{}, TLSSets: map[string]*model.TLSSet{}}
	b := build{config: c, pipelines: c.Pipelines.Edit(), upstreams: c.Upstreams.Edit(), certificates: c.Certificates.Edit()}
	for _, p := range pipelines {
		b.pipeline(Pipeline(p, services))
	}
	known := b.pipelines.Map().Keys()
	servers = slices.Clone(servers)
	slices.SortStableFunc(servers, func(a, b *model.HTTPServer) int { return strings.Compare(a.Name, b.Name) })
	var backends []Backend
	for _, s := range servers {
		t := Server(s, services)
		b.server(t)
		backends = append(backends, t.Backends...)
	}
	lost := Conflicts(c.Servers)
	for _, s := range c.Servers {
		if problem, found := lost[s]; found {
			b.problems = append(b.problems, problem)
			delete(c.RuleSets, s.RuleSet)
			delete(c.TLSSets, s.TLSSet)
		}
	}
	c.Servers = slices.DeleteFunc(c.Servers, func(s *model.HTTPServer) bool { _, found := lost[s]; return found })
	c.Pipelines, c.Upstreams, c.Certificates = b.pipelines.Map(), b.upstreams.Map(), b.certificates.Map()
	exists := func(name string) bool { _, found := c.Pipelines.Get(name); return found }
	return c, append(b.problems, Missing(backends, exists, known)...)
}

type build struct {
	config       *model.Config
	pipelines    *persist.Editor[*model.Pipeline]
	upstreams    *persist.Editor[*model.Upstream]
	certificates *persist.Editor[*model.Certificate]
	problems     []model.Problem
}

func (b *build) pipeline(t *FromPipeline) {
	b.problems = append(b.problems, t.Problems...)
	if _, taken := b.pipelines.Get(t.Pipeline.Name); taken {
		b.twice(t.Pipeline.Origin, "a Pipeline")
		return
	}
	b.pipelines.Set(t.Pipeline.Name, t.Pipeline)
	for _, u := range t.Upstreams {
		b.upstreams.Set(u.Name, u)
	}
}

func (b *build) server(t *FromServer) {
	b.problems = append(b.problems, t.Problems...)
	if t.Server == nil {
		return
	}
	if b.config.RuleSets[t.RuleSet.Name] != nil {
		b.twice(t.Server.Origin, "an HTTPServer")
		return
	}
	b.config.Servers = append(b.config.Servers, t.Server)
	b.config.RuleSets[t.RuleSet.Name] = t.RuleSet
	if t.TLSSet != nil {
		b.config.TLSSets[t.TLSSet.Name] = t.TLSSet
	}
	for _, c := range t.Certificates {
		b.certificates.Set(c.Name, c)
	}
	for _, p := range t.Pipelines {
		b.pipelines.Set(p.Name, p)
	}
	for _, u := range t.Upstreams {
		b.upstreams.Set(u.Name, u)
	}
}

func (b *build) twice(at model.Origin, what string) {
	at.Field = "name"
	b.problems = append(b.problems, model.Problem{
		Origin: at, Reason: "DuplicateName", Severity: model.Error,
		Message: "there is " + what + " of that name already", Mend: "rename or remove one of them",
	})
}
