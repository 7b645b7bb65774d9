package engine

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
	"sluice.dev/sluice/model/persist"
)

// world is what the configs of one test are made from besides the documents: backends by name, certificates, services.
type world struct {
	t         testing.TB
	backends  map[string]*backend
	authority *testkit.Authority
	ports     map[string]int    // fixed ports of servers; the others get any
	services  map[string]string // upstreams by name: "v1 v2", "terminating v1", "reason=service_missing"
	tls       []string          // "a.example", "b.example client-ca"
	issued    map[string]*model.Certificate
	last      *model.Config
}

func newWorld(t testing.TB) *world {
	return &world{
		t: t, backends: map[string]*backend{}, authority: testkit.NewAuthority(t), ports: map[string]int{},
		services: map[string]string{}, issued: map[string]*model.Certificate{}, last: &model.Config{},
	}
}

// backend returns the backend of a name, started when there is none yet.
func (w *world) backend(name string) *backend {
	if w.backends[name] == nil {
		w.backends[name] = newBackend(w.t, name)
	}
	return w.backends[name]
}

var mentioned = regexp.MustCompile(`http://\$\w+`)

// config makes a Config of HTTPServer and Pipeline documents, in which http://$v1 is the URL of backend v1. What is the
// same as in the config before is shared with it.
func (w *world) config(file, text string) *model.Config {
	w.t.Helper()
	text = mentioned.ReplaceAllStringFunc(text, func(found string) string {
		return "http://" + w.backend(found[len("http://$"):]).address
	})
	c := &model.Config{RuleSets: map[string]*model.RuleSet{}, TLSSets: map[string]*model.TLSSet{}}
	docs, errs := document.Parse(file, []byte(text))
	if len(errs) > 0 {
		w.t.Fatal(errs)
	}
	pipelines, upstreams := w.last.Pipelines.Edit(), w.last.Upstreams.Edit()
	kept := map[string]bool{}
	for _, d := range docs {
		object, problems := model.Decode(d)
		if len(problems) > 0 {
			w.t.Fatal(problems)
		}
		switch object := object.(type) {
		case *model.HTTPServer:
			w.server(c, object)
		case *model.Pipeline:
			for _, u := range w.pools(object) {
				set(upstreams, u.Name, u)
				kept["u "+u.Name] = true
			}
			set(pipelines, object.Name, object)
			kept["p "+object.Name] = true
		}
	}
	prune(pipelines, w.last.Pipelines, "p ", kept)
	prune(upstreams, w.last.Upstreams, "u ", kept)
	c.Pipelines, c.Upstreams = pipelines.Map(), upstreams.Map()
	w.certificates(c)
	w.last = c
	return c
}

func (w *world) server(c *model.Config, s *model.HTTPServer) {
	s.Address, s.Port = "127.0.0.1", uint16(w.ports[s.Name])
	s.RuleSet = s.Name
	if s.HTTPS {
		s.TLSSet = "tls"
	}
	rs := &model.RuleSet{Name: s.Name, Kind: s.RouterKind, Rules: s.Rules}
	if rs.Kind == model.HostFirst {
		for _, r := range s.Rules {
			rs.Hosts = rs.Hosts.With(r.Host, r)
		}
		rs.Rules = nil
	}
	if s.Fallback != "" {
		rs.Fallback = &model.Path{Backend: s.Fallback, Origin: model.Origin{Key: s.Origin.Key, Field: "fallback"}}
	}
	if old := w.last.RuleSets[s.Name]; old != nil {
		if same(old, rs) {
			rs = old
		} else if rs.Kind == model.HostFirst {
			rs.Hosts = shared(old.Hosts, rs.Hosts)
		}
	}
	c.RuleSets[s.Name] = rs
	for _, old := range w.last.Servers {
		if old.Name == s.Name && same(old, s) {
			s = old
		}
	}
	c.Servers = append(c.Servers, s)
}

// pools names the pools of a pipeline's proxies and returns the upstreams that they stand for.
func (w *world) pools(p *model.Pipeline) (all []*model.Upstream) {
	for i := range p.Filters {
		f := &p.Filters[i]
		if f.Proxy == nil {
			continue
		}
		for _, pool := range f.Proxy.Pools {
			u := &model.Upstream{Name: pool.Service, Origin: model.Origin{Key: p.Origin.Key, Field: fmt.Sprintf("filters[%d].pools[0]", i)}}
			if pool.LoadBalance != nil {
				u.LoadBalance = *pool.LoadBalance
			}
			if pool.Service != "" {
				w.service(u, w.services[pool.Service])
			} else {
				u.Name = p.Name + "/" + f.Name
				pool.Service = u.Name
				for _, s := range pool.Servers {
					target, err := url.Parse(s.URL)
					if err != nil {
						w.t.Fatal(err)
					}
					u.Endpoints = append(u.Endpoints, model.Endpoint{Address: target.Host, Weight: s.Weight, KeepHost: s.KeepHost})
				}
			}
			all = append(all, u)
		}
	}
	return all
}

// service fills in an upstream from words: backend names, after "terminating" those on their way out, or reason=name.
func (w *world) service(u *model.Upstream, words string) {
	terminating := false
	for _, word := range strings.Fields(words) {
		if reason, ok := strings.CutPrefix(word, "reason="); ok {
			u.Reason = reason
		} else if word == "terminating" {
			terminating = true
		} else {
			u.Endpoints = append(u.Endpoints, model.Endpoint{Address: w.backend(word).address, Terminating: terminating})
		}
	}
}

func (w *world) certificates(c *model.Config) {
	tls := &model.TLSSet{Name: "tls"}
	for _, line := range w.tls {
		words := strings.Fields(line)
		host := words[0]
		entry := &model.TLSEntry{Host: host, Certificates: []string{host}, Origin: model.Origin{Key: model.Key{Kind: "Test", Name: host}}}
		if len(words) > 1 {
			entry.ClientCAs = w.authority.PEM
		}
		if w.issued[host] == nil {
			chain, key := w.authority.Issue(w.t, time.Now().Add(time.Hour), host)
			w.issued[host] = &model.Certificate{Name: host, Chain: chain, Key: key}
		}
		tls.Entries = tls.Entries.With(host, entry)
		c.Certificates = c.Certificates.With(host, w.issued[host])
	}
	c.TLSSets["tls"] = tls
	if old := w.last.TLSSets["tls"]; old != nil {
		tls.Entries = shared(old.Entries, tls.Entries)
	}
}

func set[V any](e *persist.Editor[*V], name string, v *V) {
	if old, found := e.Get(name); !found || !same(old, v) {
		e.Set(name, v)
	}
}

func prune[V any](e *persist.Editor[*V], old persist.Map[*V], prefix string, kept map[string]bool) {
	for name := range old.All() {
		if !kept[prefix+name] {
			e.Delete(name)
		}
	}
}

// shared is now with the values of old where they are equal.
func shared[V any](old, now persist.Map[*V]) persist.Map[*V] {
	e := old.Edit()
	for name, v := range now.All() {
		set(e, name, v)
	}
	for name := range old.All() {
		if _, found := now.Get(name); !found {
			e.Delete(name)
		}
	}
	return e.Map()
}

func same(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

// portOf is the port of host:port.
func portOf(t testing.TB, address string) int {
	_, text, _ := strings.Cut(address, ":")
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
