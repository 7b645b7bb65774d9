package ingress

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// Touch makes the Ingresses that name a Service look again.
func (s *State) Touch(service string) {
	for _, m := range s.byService[service] {
		s.reports[m.object.Key] = true
	}
}

// Changed returns the objects about which there may be something new to say since it was last asked.
func (s *State) Changed() []model.Key {
	keys := make([]model.Key, 0, len(s.reports))
	for key := range s.reports {
		keys = append(keys, key)
	}
	s.reports = emptied(s.reports)
	return keys
}

// SecretProblems returns what is wrong with a Secret as a certificate, when something shows it to clients.
func (s *State) SecretProblems(path string) []model.Problem {
	if c := s.certificates[path]; c != nil {
		return c.own()
	}
	return nil
}

// Controllers returns what is to be said about each controller.
func (s *State) Controllers() []*status.Entry {
	var entries []*status.Entry
	for _, c := range s.controllers {
		e := &status.Entry{Key: c.spec.Origin.Key, Problems: slices.Clone(c.problems)}
		if ref, ok := ParseRef(c.spec.DefaultBackend); ok {
			if p := s.upstreams.Problem(ref, model.Origin{Key: e.Key, Field: "defaultBackend"}, false); p != nil {
				e.Problems = append(e.Problems, *p)
			}
		}
		if path := c.spec.DefaultCertificate; path != "" {
			if p := s.secret(path).problem(path, model.Origin{Key: e.Key, Field: "defaultCertificate"}); p != nil {
				e.Problems = append(e.Problems, *p)
			}
		}
		e.Problems = status.Tidy(e.Problems)
		entries = append(entries, e)
	}
	return entries
}

// Entry returns what is to be said about an Ingress; nil when it is not there, or not ours and nothing is wrong with it.
func (s *State) Entry(key model.Key) *status.Entry {
	in, found := store.Get[*store.Ingress](s.view, key)
	if !found {
		return nil
	}
	e := &status.Entry{Key: key, Problems: slices.Clone(s.view.Problems(key))}
	for _, c := range s.controllers {
		if claim := s.classes.Claim(c.spec, s.view.Object(key), in); claim.Problem != nil {
			e.Problems = append(e.Problems, *claim.Problem)
		}
	}
	m := s.members[key.Path()]
	if m == nil {
		if len(e.Problems) == 0 {
			return nil
		}
		e.Problems = limited(e.Problems)
		return e
	}
	r := read(m.object, m.value)
	e.Problems = append(e.Problems, r.problems...)
	refs := s.refProblems(m, r)
	for i := range r.tls {
		e.Problems = append(e.Problems, s.mismatches(m, &r.tls[i])...)
	}
	for _, c := range m.owners {
		e.Owners = append(e.Owners[:len(e.Owners):len(e.Owners)], c.spec.Name)
		if len(m.owners) == 1 {
			e.Owners = c.owner // most Ingresses have one, and share its list
		}
		e.Problems = append(e.Problems, c.lostBy(m, r)...)
	}
	if len(m.owners) > 1 {
		slices.Sort(e.Owners)
	}
	e.Problems = limited(append(e.Problems, refs...))
	if e.Conditions = s.fine; len(refs) > 0 || r.broken() {
		e.Conditions = conditions(e.Problems)
	}
	return e
}

// maxProblems is how many problems of one Ingress are told.
const maxProblems = 100

// limited orders the problems and keeps the first of them, when they are too many to be read.
func limited(found []model.Problem) []model.Problem {
	found = status.Tidy(found)
	if len(found) <= maxProblems {
		return found
	}
	rest := model.Problem{
		Origin: model.Origin{Key: found[0].Origin.Key}, Reason: "TooManyProblems", Severity: model.Error,
		Message: fmt.Sprintf("there are %d more problems", len(found)-maxProblems), Mend: "mend those that are listed first",
	}
	return append(found[:maxProblems:maxProblems], rest)
}

// refProblems says which Services and Secrets cannot be used.
func (s *State) refProblems(m *member, r *reading) []model.Problem {
	var found []model.Problem
	for ref := range r.refs {
		if ref.target.broken != "" {
			continue
		}
		at := model.Origin{Key: m.object.Key, Field: ref.backendField() + ".service"}
		if p := s.upstreams.Problem(ref.target.ref, at, true); p != nil {
			found = append(found, *p)
		}
	}
	for i := range r.tls {
		item := &r.tls[i]
		if item.secret == "" {
			continue
		}
		at := model.Origin{Key: m.object.Key, Field: item.field + ".secretName"}
		if p := s.secret(item.secret).problem(item.secret, at); p != nil {
			found = append(found, *p)
		}
	}
	return found
}

// lostBy says what an Ingress has to leave to others, and what it asks for in vain.
func (c *controller) lostBy(m *member, r *reading) []model.Problem {
	var found []model.Problem
	for i := range r.hosts {
		if h := c.hosts[r.hosts[i].host]; h != nil {
			found = append(found, h.lost[m]...)
		}
	}
	for i, claim := range m.claims {
		if t := c.tls[claim.host]; t != nil && (i == 0 || m.claims[i-1].host != claim.host) {
			found = append(found, t.lost[m]...)
		}
	}
	if r.standard != nil && c.standards[0] != m {
		if winner := c.standards[0]; winner.standardTarget() != r.standard.target {
			found = append(found, model.Problem{
				Origin: model.Origin{Key: m.object.Key, Field: r.standard.field}, Reason: "DefaultBackendTaken", Severity: model.Warning,
				Message: "hosts without a rule of this Ingress get the defaultBackend of " + agePhrase(winner, m), Mend: "remove one of them",
			})
		}
	}
	if r.redirect && !slices.ContainsFunc(r.hosts, func(h hostRules) bool { return c.hasTLS(h.host) }) {
		found = append(found, model.Problem{
			Origin: model.Origin{Key: m.object.Key, Field: "metadata.annotations[" + redirectAnnotation + "]"}, Reason: "RedirectWithoutTLS", Severity: model.Warning,
			Message: fmt.Sprintf("no host of the Ingress has TLS on controller %s, so nothing is redirected", c.spec.Name), Mend: "list the hosts in spec.tls",
		})
	}
	return found
}

// standardTarget is where the default backend of an Ingress that has one leads.
func (m *member) standardTarget() target {
	p := &problems{key: m.object.Key}
	return p.backend("spec.defaultBackend", m.value.Default)
}

// broken reports whether some backend names nothing that could be one.
func (r *reading) broken() bool {
	for ref := range r.refs {
		if ref.target.broken != "" {
			return true
		}
	}
	return false
}

// mismatches says for which of its hosts the certificate of an entry is not good.
func (s *State) mismatches(m *member, item *tlsItem) []model.Problem {
	if item.secret == "" {
		return nil
	}
	c := s.secret(item.secret)
	if c.made == nil || c.made.Broken != "" {
		return nil
	}
	var wrong []string
	for _, host := range item.hosts {
		if !c.covers(host) {
			wrong = append(wrong, clip(host))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return []model.Problem{{
		Origin: model.Origin{Key: m.object.Key, Field: item.field + ".secretName"}, Reason: "CertificateMismatch", Severity: model.Warning,
		Message: fmt.Sprintf("the certificate is not good for %s; its names are %s", list(wrong), list(clipAll(slices.Clone(c.hosts)))),
		Mend:    "issue it for these hosts too",
	}}
}

// conditions says whether all that an Ingress of ours refers to can be used, by the first problem that says otherwise.
func conditions(found []model.Problem) []status.Condition {
	accepted := status.Condition{Type: status.Accepted, Holds: true, Reason: "Accepted"}
	for i := range found {
		if p := &found[i]; slices.Contains(unresolved(), p.Reason) {
			return []status.Condition{accepted, {Type: status.ResolvedRefs, Reason: p.Reason, Message: p.Origin.Field + ": " + p.Message}}
		}
	}
	return []status.Condition{accepted, {Type: status.ResolvedRefs, Holds: true, Reason: "ResolvedRefs"}}
}

// unresolved are the reasons of references that lead nowhere.
func unresolved() []string {
	return []string{"ServiceMissing", "PortMissing", "BackendUnsupported", "AddressRefused", "NoBackend", "TwoBackends", "InvalidName", "SecretMissing", "SecretBroken"}
}
