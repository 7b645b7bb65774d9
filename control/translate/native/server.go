package native

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// Server translates one server. It does not change s; what needs no change is shared with it.
func Server(s *model.HTTPServer, services Services) *FromServer {
	t := &FromServer{Problems: s.Validate()}
	w := &work{services: services}
	t.RuleSet = ruleSet(s, t, w)
	if s.HTTPS {
		t.TLSSet, t.Certificates = tlsSet(s)
	}
	// A server that was to know its clients by their certificates and cannot must not serve without.
	if s.Port != 0 && (s.HTTPS || s.CACertBase64 == "") {
		t.Server = listener(s)
	}
	t.Pipelines, t.Upstreams, t.Services = w.pipelines, w.upstreams, w.sortedServices()
	t.Problems = append(t.Problems, w.problems...)
	return t
}

// listener is s as the engine runs it.
func listener(s *model.HTTPServer) *model.HTTPServer {
	l := *s
	l.Rules, l.CACertBase64, l.CertBase64, l.KeyBase64, l.Certs, l.Keys = nil, "", "", "", nil, nil
	l.RuleSet = s.Name
	if s.HTTPS {
		l.TLSSet = s.Name
	}
	return &l
}

func ruleSet(s *model.HTTPServer, t *FromServer, w *work) *model.RuleSet {
	rs := &model.RuleSet{Name: s.Name, Kind: s.RouterKind}
	if rs.Kind != model.RadixTree && rs.Kind != model.HostFirst {
		rs.Kind = model.Ordered
	}
	hosts := rs.Hosts.Edit()
	for _, rule := range s.Rules {
		if rule == nil {
			continue
		}
		rule = resolved(s, rule, t, w)
		if rs.Kind != model.HostFirst {
			rs.Rules = append(rs.Rules, rule)
			continue
		}
		for _, host := range hostsOf(rule) {
			if _, taken := hosts.Get(host); !taken {
				hosts.Set(host, ofHost(rule, host))
			}
		}
	}
	rs.Hosts = hosts.Map()
	if s.Fallback != "" {
		at := model.Origin{Key: s.Origin.Key, Field: "fallback"}
		rs.Fallback = &model.Path{Backend: s.Fallback, Origin: at}
		t.Backends = append(t.Backends, Backend{s.Fallback, at})
	}
	return rs
}

// resolved is the rule with a pipeline in the place of every pool, the rule itself when it has none.
func resolved(s *model.HTTPServer, rule *model.Rule, t *FromServer, w *work) *model.Rule {
	changed := false
	paths := make([]*model.Path, 0, len(rule.Paths))
	for _, path := range rule.Paths {
		switch {
		case path == nil:
			changed = true
			continue
		case path.Backend != "":
			t.Backends = append(t.Backends, Backend{path.Backend, within(path.Origin, "backend")})
		case path.BackendPool != nil:
			p := *path
			p.Backend = model.KindHTTPServer + "/" + s.Name + "/" + path.Origin.Field
			w.generate(p.Backend, path.BackendPool, within(path.Origin, "backendPool"))
			path = &p
		}
		if path.BackendPool != nil {
			p := *path
			p.BackendPool = nil
			path, changed = &p, true
		}
		paths = append(paths, path)
	}
	if !changed {
		return rule
	}
	r := *rule
	r.Paths = paths
	return &r
}

// hostsOf are the canonical host patterns of a rule of kind Host, "" for all other hosts. Those that are none are left out.
func hostsOf(rule *model.Rule) []string {
	var hosts []string
	add := func(host string) {
		canonical, ok := canon.RuleHost(host)
		switch {
		case canonical == "*":
			hosts = append(hosts, "")
		case ok && canonical != "" && (!strings.Contains(canonical, "*") || strings.HasPrefix(canonical, "*.")):
			hosts = append(hosts, canonical)
		}
	}
	add(rule.Host)
	for _, host := range rule.Hosts {
		if !host.IsRegexp {
			add(host.Value)
		}
	}
	if rule.Host == "" && rule.HostRegexp == "" && len(rule.Hosts) == 0 {
		hosts = append(hosts, "")
	}
	return hosts
}

// ofHost is the rule for just that host, the rule itself when it says no more.
func ofHost(rule *model.Rule, host string) *model.Rule {
	if rule.Host == host && rule.HostRegexp == "" && len(rule.Hosts) == 0 {
		return rule
	}
	r := *rule
	r.Host, r.HostRegexp, r.Hosts = host, "", nil
	return &r
}

func within(o model.Origin, field string) model.Origin {
	if o.Field != "" {
		field = o.Field + "." + field
	}
	o.Field = field
	return o
}

// Missing says which of the pipelines that servers name do not exist; their paths answer 503. Known is for the hint.
func Missing(backends []Backend, exists func(pipeline string) bool, known []string) []model.Problem {
	var problems []model.Problem
	for _, b := range backends {
		if exists(b.Pipeline) {
			continue
		}
		mend := "write the Pipeline, or name another"
		if nearest := document.Nearest(b.Pipeline, known); nearest != "" {
			mend = fmt.Sprintf("did you mean %q?", nearest)
		}
		problems = append(problems, model.Problem{
			Origin: b.At, Reason: "PipelineMissing", Severity: model.Error,
			Message: fmt.Sprintf("there is no Pipeline %q; the answer is 503", b.Pipeline), Mend: mend,
		})
	}
	return problems
}

// Conflicts says which servers cannot listen since one before them in the list has their address and port.
func Conflicts(servers []*model.HTTPServer) map[*model.HTTPServer]model.Problem {
	lost := map[*model.HTTPServer]model.Problem{}
	byPort := map[uint16][]*model.HTTPServer{}
	for _, s := range servers {
		i := slices.IndexFunc(byPort[s.Port], func(other *model.HTTPServer) bool { return overlaps(s.Address, other.Address) })
		if i < 0 {
			byPort[s.Port] = append(byPort[s.Port], s)
			continue
		}
		first := byPort[s.Port][i]
		lost[s] = model.Problem{
			Origin: within(s.Origin, "port"), Reason: "PortTaken", Severity: model.Error,
			Message: fmt.Sprintf("server %s has %s", first.Name, net.JoinHostPort(first.Address, strconv.Itoa(int(first.Port)))),
			Mend:    "give one of them another port or address",
		}
	}
	return lost
}

// overlaps reports whether two addresses cannot both be listened on with one port.
func overlaps(a, b string) bool {
	return a == b || covers(a, b) || covers(b, a)
}

// covers reports whether listening on all addresses, or all of IPv4, takes another address.
func covers(all, address string) bool {
	return all == "" || all == "::" || all == "0.0.0.0" && !strings.Contains(address, ":")
}
