package ingress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/sluice/model"
)

// hostState is one host of a controller.
type hostState struct {
	members []*member // with a rule for it, oldest first
	rule    *model.Rule
	lost    map[*member][]model.Problem // what those have to be told who lost a path to another
}

// contender is a path that wants to be in a rule.
type contender struct {
	member *member
	ref    *pathRef
}

// place is what two paths must not have in common.
type place struct {
	exact bool
	path  string // of a prefix: without its last slash, which changes nothing
}

func (p *pathRef) place() place {
	if p.exact {
		return place{true, p.path}
	}
	return place{false, strings.TrimSuffix(p.path, "/")}
}

// rebuild makes the rule of a host anew.
func (c *controller) rebuild(host string, h *hostState) {
	c.forget(h.lost)
	h.lost = nil
	all := c.contenders(host, h)
	slices.SortStableFunc(all, precedence)
	tls := c.hasTLS(host)
	rule := &model.Rule{Host: host, Paths: make([]*model.Path, 0, len(all)+1)}
	for _, from := range all {
		rule.Paths = append(rule.Paths, c.path(from, tls))
	}
	if standard, found := c.standard(host, h); found {
		rule.Paths = append(rule.Paths, c.path(standard, tls))
	}
	oldest := h.members[0]
	read := c.state.read(oldest)
	rule.Origin = model.Origin{Key: oldest.object.Key, Field: read.rules[read.rulesOf(host)[0]].field}
	last := h.rule
	if last == nil {
		last, _ = c.lastHosts.Get(host)
	}
	before := h.rule
	h.rule = keep(last, rule)
	c.releaseRule(before)
	c.forget(h.lost)
	if c.redirects[host] > 0 {
		for _, m := range h.members {
			c.state.reports[m.object.Key] = true
		}
	}
}

func (c *controller) releaseRule(rule *model.Rule) {
	if rule == nil {
		return
	}
	for _, p := range rule.Paths {
		c.state.release(p.Backend)
	}
}

// path makes a path of a rule.
func (c *controller) path(from contender, tls bool) *model.Path {
	redirect := tls && c.state.read(from.member).redirect
	p := &model.Path{
		Backend: c.state.acquire(from.ref.target, redirect),
		Origin:  model.Origin{Key: from.member.object.Key, Field: from.ref.field},
	}
	switch {
	case from.ref.path == "": // the default backend
	case from.ref.exact:
		p.Exact = from.ref.path
	default:
		p.ElementPrefix = from.ref.path
	}
	return p
}

// precedence puts the path before that matches more of a request; when they match as much, an exact one.
func precedence(a, b contender) int {
	x, y := a.ref.place(), b.ref.place()
	return cmp.Or(cmp.Compare(len(y.path), len(x.path)), boolOrder(y.exact, x.exact), strings.Compare(x.path, y.path))
}

// contenders are the paths of a host, one for each place: that of the oldest Ingress, of one Ingress that with the longest text.
func (c *controller) contenders(host string, h *hostState) []contender {
	var all []contender
	taken := map[place]int{}
	for _, m := range h.members {
		r := c.state.read(m)
		for _, i := range r.rulesOf(host) {
			for j := range r.rules[i].paths {
				next := contender{m, &r.rules[i].paths[j]}
				at, dup := taken[next.ref.place()]
				switch {
				case !dup:
					taken[next.ref.place()] = len(all)
					all = append(all, next)
				case all[at].member == m && len(next.ref.path) > len(all[at].ref.path):
					h.lose(host, next, all[at])
					all[at] = next
				default:
					h.lose(host, all[at], next)
				}
			}
		}
	}
	return all
}

// lose notes that a path is not served since another has its place.
func (h *hostState) lose(host string, winner, loser contender) {
	what := fmt.Sprintf("path %q of host %q", clip(loser.ref.path), clip(host))
	if host == "" {
		what = fmt.Sprintf("path %q of all other hosts", clip(loser.ref.path))
	}
	p := model.Problem{Origin: model.Origin{Key: loser.member.object.Key, Field: loser.ref.field + ".path"}, Reason: "PathTaken", Severity: model.Error}
	if winner.member == loser.member {
		p.Message, p.Mend = what+" is that of "+winner.ref.field+", which counts", "remove one of them"
	} else {
		p.Message, p.Mend = what+" belongs to "+agePhrase(winner.member, loser.member), "choose another path or host, or remove one of them"
	}
	if winner.ref.target == loser.ref.target {
		p.Severity = model.Warning
	}
	h.note(loser.member, p)
}

func (h *hostState) note(m *member, p model.Problem) {
	if h.lost == nil {
		h.lost = map[*member][]model.Problem{}
	}
	h.lost[m] = append(h.lost[m], p)
}

// standard is what gets the rest of a host: the default backend of the oldest of its Ingresses that has one.
func (c *controller) standard(host string, h *hostState) (found contender, ok bool) {
	for _, m := range h.members {
		r := c.state.read(m)
		switch {
		case r.standard == nil:
		case !ok:
			found, ok = contender{m, r.standard}, true
		case r.standard.target != found.ref.target:
			h.note(m, model.Problem{
				Origin: model.Origin{Key: m.object.Key, Field: r.standard.field}, Reason: "DefaultBackendTaken", Severity: model.Warning,
				Message: fmt.Sprintf("the rest of host %q gets the defaultBackend of %s", clip(host), agePhrase(found.member, m)), Mend: "remove one of them",
			})
		}
	}
	return found, ok
}
