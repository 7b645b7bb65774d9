package model_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
	"sluice.dev/sluice/model/persist"
)

const server = `
kind: HTTPServer
name: web
labels: {team: shop}
address: 127.0.0.1
port: 8080
https: true
keepAlive: false
maxConnections: 5
clientMaxBodySize: -1
certBase64: aGVsbG8=
keyBase64: VE9QU0VDUkVU
ipFilter: {blockByDefault: true, allowIPs: [10.0.0.0/8]}
rules:
- host: "*.example.com"
  ipFilter: {blockIPs: [10.0.0.1]}
  paths:
  - {path: "/a b", methods: [GET, HEAD], backend: app}
  - pathRegexp: ^/(a|b)$
    rewriteTarget: /$1
    headers: [{key: X-A, values: ["1", "true"], regexp: "^x: "}]
    matchAllHeader: true
    queries: [{key: "q", values: ["", "~", "no"]}]
    setHeaders: {Authorization: Basic TOPSECRET, X-B: "", X-Token: $http_x_a, X-Text: "two\nlines"}
    clientMaxBodySize: 7
    backend: app
- hosts: [{value: a.example.com}, {isRegexp: true, value: ^b}]
  paths: [{backendPool: {service: default/app:80, timeout: 5s}}]
fallback: app
`

const pipeline = `
kind: Pipeline
name: app
flow: [{filter: auth, jumpIf: {denied: END, "": proxy}}, {filter: proxy, alias: two}]
filters:
- {name: auth, kind: Auth, users: {a: 1}, password: TOPSECRET}
- name: proxy
  kind: Proxy
  pools:
  - servers: [{url: "http://10.0.0.1:80", weight: 3}, {url: "http://10.0.0.2:80", weight: 1}]
    loadBalance: {policy: headerHash, headerHashKey: X-User}
    setUpstreamHost: true
    failureCodes: [500, 503]
`

func config(t *testing.T) *model.Config {
	s, p := object(t, server).(*model.HTTPServer), object(t, pipeline).(*model.Pipeline)
	second := object(t, "kind: HTTPServer\nname: web2\nport: 8081\nfallback: app\n").(*model.HTTPServer)
	byHost := object(t, "kind: HTTPServer\nname: zone\nport: 8082\nrouterKind: Host\nfallback: app\n").(*model.HTTPServer)
	s.RuleSet, second.RuleSet, byHost.RuleSet, s.TLSSet = "web", "web", "zone", "web"
	c := &model.Config{
		Servers: []*model.HTTPServer{s, second, byHost},
		RuleSets: map[string]*model.RuleSet{
			"web":   {Name: "web", Kind: model.Ordered, Rules: s.Rules, Fallback: &model.Path{Backend: "app"}},
			"zone":  {Name: "zone", Kind: model.HostFirst, Fallback: &model.Path{Backend: "app"}},
			"spare": {Name: "spare", Kind: model.RadixTree, Rules: []*model.Rule{{Host: "x"}}},
		},
		TLSSets: map[string]*model.TLSSet{"web": {Name: "web", Default: []string{"a/b"}, ClientCAs: []byte("x")}},
	}
	rule := &model.Rule{Paths: []*model.Path{{ElementPrefix: "/", Backend: "app"}}}
	c.RuleSets["zone"].Hosts = c.RuleSets["zone"].Hosts.With("b.example.com", rule).With("a.example.com", rule).With("", rule)
	c.TLSSets["web"].Entries = persist.Map[*model.TLSEntry]{}.With("a.example.com", &model.TLSEntry{Host: "a.example.com", Certificates: []string{"a/b"}})
	c.Pipelines = c.Pipelines.With("app", p)
	c.Upstreams = c.Upstreams.
		With("b", &model.Upstream{Name: "b", Reason: "service_missing", Detail: "Ingress default/web"}).
		With("a", &model.Upstream{Name: "a", LoadBalance: model.LoadBalance{Policy: "random"}, Endpoints: []model.Endpoint{
			{Address: "10.0.0.1:80"}, {Address: "10.0.0.2:80", Host: "x", Weight: 2, KeepHost: true, Terminating: true},
		}})
	c.Certificates = c.Certificates.
		With("a/b", &model.Certificate{Name: "a/b", Chain: []byte("chain"), Key: []byte("TOPSECRET")}).
		With("a/c", &model.Certificate{Name: "a/c", Broken: "the key does not belong to the certificate"})
	return c
}

// TestDump holds the form of a dumped config against testdata/dump.yaml; -update rewrites it.
func TestDump(t *testing.T) {
	got := model.Dump(config(t))
	if *update {
		if err := os.WriteFile("testdata/dump.yaml", got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/dump.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
	if again := model.Dump(config(t)); !bytes.Equal(got, again) {
		t.Error("two dumps of equal configs differ")
	}
	if strings.Contains(string(got), "TOPSECRET") || strings.Contains(string(got), "VE9QU0VDUkVU") {
		t.Error("a secret is shown")
	}
}

// TestDumpReadsBack: what is dumped as HTTPServer and Pipeline decodes to equal objects, keys and redacted text aside.
func TestDumpReadsBack(t *testing.T) {
	c := config(t)
	docs, errs := document.Parse("dump.yaml", model.Dump(c))
	if errs != nil {
		t.Fatal(errs)
	}
	hide := strings.NewReplacer("Basic TOPSECRET", `\u003credacted\u003e`, "TOPSECRET", `\u003credacted\u003e`)
	equal := func(want, got any) {
		t.Helper()
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if diff := cmp.Diff(hide.Replace(string(a)), string(b)); diff != "" {
			t.Error(diff)
		}
	}
	for _, d := range docs {
		got, problems := model.Decode(d)
		switch got := got.(type) {
		case *model.HTTPServer:
			i := slices.IndexFunc(c.Servers, func(s *model.HTTPServer) bool { return s.Name == got.Name })
			want := *c.Servers[i]
			want.CertBase64, want.KeyBase64 = "", ""
			switch got.Name {
			case "web2":
				want.Fallback = "" // shown with the first server of the rule set
			case "zone":
				got.Rules = nil // they stand in the rule set
			}
			equal(&want, got)
		case *model.Pipeline:
			p, _ := c.Pipelines.Get(got.Name)
			equal(p, got)
		default:
			continue
		}
		if problems != nil {
			t.Errorf("%s: %v", d.Name, problems)
		}
	}
}
