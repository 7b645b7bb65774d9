package ingress_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/control/translate/native"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// checkConfig checks what must hold for every config: all that is referred to is there, and it reads back as what a user could
// have written.
func checkConfig(t *testing.T, c *model.Config, dumped []byte) {
	t.Helper()
	for _, s := range c.Servers {
		if c.RuleSets[s.RuleSet] == nil || (c.TLSSets[s.TLSSet] != nil) != s.HTTPS {
			t.Errorf("server %s refers to %q and %q", s.Name, s.RuleSet, s.TLSSet)
		}
	}
	for _, rs := range c.RuleSets {
		for host, rule := range rs.Hosts.All() {
			if rule.Host != host {
				t.Errorf("host %q has the rule of %q", host, rule.Host)
			}
			for _, p := range rule.Paths {
				checkPath(t, c, p)
			}
		}
		if rs.Fallback != nil {
			checkPath(t, c, rs.Fallback)
		}
	}
	readBack(t, c, dumped)
}

func checkPath(t *testing.T, c *model.Config, path *model.Path) {
	t.Helper()
	p, found := c.Pipelines.Get(path.Backend)
	if !found {
		t.Errorf("there is no pipeline %s", path.Backend)
		return
	}
	for _, f := range p.Filters {
		if f.Proxy != nil {
			if _, found := c.Upstreams.Get(f.Proxy.Pools[0].Service); !found {
				t.Errorf("there is no upstream %s", f.Proxy.Pools[0].Service)
			}
		}
	}
}

// readBack decodes the dumped servers and compares their rules with those that were dumped.
func readBack(t *testing.T, c *model.Config, dumped []byte) {
	t.Helper()
	docs, errs := document.Parse("config.yaml", dumped)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	shown := map[string]bool{}
	for _, doc := range docs {
		if doc.Kind == model.KindPipeline {
			if errs := doc.Decode(new(model.Pipeline)); len(errs) > 0 {
				t.Error(errs)
			}
		}
		if doc.Kind != model.KindHTTPServer {
			continue
		}
		s := new(model.HTTPServer)
		if errs := doc.Decode(s); len(errs) > 0 {
			t.Error(errs)
			continue
		}
		s.SetDefaults()
		for _, p := range s.Validate() {
			if p.Severity == model.Error {
				t.Errorf("read back: %v", p)
			}
		}
		for _, now := range c.Servers {
			if now.Name == s.Name && !shown[now.RuleSet] {
				shown[now.RuleSet] = true
				again := native.Server(s, func(service string, _ model.LoadBalance, _ model.Origin) (string, []model.Problem) {
					return service, nil
				})
				compareRules(t, c.RuleSets[now.RuleSet], again.RuleSet)
			}
		}
	}
}

func compareRules(t *testing.T, want, got *model.RuleSet) {
	t.Helper()
	plain := cmp.Options{cmpopts.IgnoreTypes(model.Origin{}), cmpopts.EquateEmpty()}
	for host, rule := range want.Hosts.All() {
		if again, _ := got.Hosts.Get(host); !cmp.Equal(rule, again, plain) {
			t.Errorf("host %q reads back as something else:\n%s", host, cmp.Diff(rule, again, plain))
		}
	}
	if got.Hosts.Len() != want.Hosts.Len() || !cmp.Equal(want.Fallback, got.Fallback, plain) {
		t.Errorf("%d hosts and fallback %v read back as %d and %v", want.Hosts.Len(), want.Fallback, got.Hosts.Len(), got.Fallback)
	}
}

// checkRequests asks the config by the plainest reading of what an Ingress means. A line is "URL => answer", where the answer is the
// upstream, or "404", "308", "503 reason"; or "TLS name => certificates".
func checkRequests(t *testing.T, c *model.Config, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		question, want, ok := strings.Cut(line, "=>")
		if !ok {
			t.Errorf("%q is no line of requests.txt", line)
			continue
		}
		question, want = strings.TrimSpace(question), strings.TrimSpace(want)
		got := ""
		if name, isTLS := strings.CutPrefix(question, "TLS"); isTLS {
			got = certificatesFor(c, strings.TrimSpace(name))
		} else {
			scheme, rest, _ := strings.Cut(question, "://")
			host, path, _ := strings.Cut(rest, "/")
			got = answer(t, c, scheme, host, "/"+path)
		}
		if got != want {
			t.Errorf("%s => %s, want %s", question, got, want)
		}
	}
}

func certificatesFor(c *model.Config, name string) string {
	for _, set := range c.TLSSets {
		_, parent, _ := strings.Cut(name, ".")
		for _, pattern := range []string{name, "*." + parent} {
			e, found := set.Entries.Get(pattern)
			if !found {
				continue
			}
			var usable []string
			for _, certificate := range e.Certificates {
				if made, found := c.Certificates.Get(certificate); found && made.Broken == "" {
					usable = append(usable, certificate)
				}
			}
			if len(usable) > 0 {
				return strings.Join(usable, " ")
			}
		}
		if len(set.Default) > 0 {
			return "default " + strings.Join(set.Default, " ")
		}
	}
	return "default"
}

func answer(t *testing.T, c *model.Config, scheme, authority, rawPath string) string {
	t.Helper()
	host, _ := canon.Host(authority)
	path, ok := canon.Path(rawPath)
	if !ok {
		return "400"
	}
	for _, rs := range c.RuleSets {
		if rs.Kind != model.HostFirst {
			continue
		}
		rule, found := rs.Hosts.Get(host)
		if _, parent, _ := strings.Cut(host, "."); !found {
			rule, found = rs.Hosts.Get("*." + parent)
		}
		if !found {
			rule, found = rs.Hosts.Get("")
		}
		if found {
			for _, p := range rule.Paths {
				if matches(p, path) {
					return follow(c, p.Backend, scheme)
				}
			}
		}
		if rs.Fallback != nil {
			return follow(c, rs.Fallback.Backend, scheme)
		}
	}
	return "404"
}

func matches(p *model.Path, path string) bool {
	switch {
	case p.Exact != "":
		return path == p.Exact
	case p.ElementPrefix != "":
		prefix := strings.TrimSuffix(p.ElementPrefix, "/")
		return path == prefix || strings.HasPrefix(path, prefix+"/")
	}
	return true
}

func follow(c *model.Config, pipeline, scheme string) string {
	p, _ := c.Pipelines.Get(pipeline)
	for _, f := range p.Filters {
		if f.Kind == "HTTPSRedirect" && scheme == "http" {
			return "308"
		}
		if f.Proxy == nil {
			continue
		}
		u, _ := c.Upstreams.Get(f.Proxy.Pools[0].Service)
		switch {
		case u.Reason != "":
			return "503 " + u.Reason
		case len(u.Endpoints) == 0:
			return "503 no_endpoints"
		}
		return u.Name
	}
	return fmt.Sprintf("pipeline %s leads nowhere", pipeline)
}
