package model_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// object decodes one document that has no mistakes.
func object(t *testing.T, text string) any {
	t.Helper()
	docs, errs := document.Parse("in.yaml", []byte(text))
	if len(docs) != 1 || errs != nil {
		t.Fatalf("%d documents, %v", len(docs), errs)
	}
	got, problems := model.Decode(docs[0])
	if problems != nil {
		t.Fatal(problems)
	}
	return got
}

func TestServerDefaults(t *testing.T) {
	s := object(t, "kind: HTTPServer\nname: web\nport: 80\nrules:\n- paths:\n  - backend: a\n  - backend: b\n").(*model.HTTPServer)
	if s.KeepAlive == nil || !*s.KeepAlive || time.Duration(s.KeepAliveTimeout) != time.Minute || s.MaxConnections != 10240 || s.ClientMaxBody != 4<<20 ||
		s.RouterKind != model.Ordered || s.Version != "easegress.megaease.com/v2" || s.Labels["easegress/owner"] != "user-api" {
		t.Errorf("%+v", s)
	}
	key := model.Key{Kind: "HTTPServer", Name: "web"}
	if want := (model.Origin{Key: key, Field: "rules[0].paths[1]"}); s.Rules[0].Paths[1].Origin != want || s.Origin.Key != key {
		t.Errorf("origins %v, %v", s.Rules[0].Paths[1].Origin, s.Origin)
	}
	if s.Rules[0].Paths[0].ClientMaxBody != 0 {
		t.Error("a path that says nothing has the server's limit, so it must stay 0")
	}
	s = object(t, "kind: HTTPServer\nname: web\nport: 80\nkeepAlive: false\nkeepAliveTimeout: 90s\nmaxConnections: 1\nclientMaxBodySize: -1\nlabels: {a: b}\nfallback: x\n").(*model.HTTPServer)
	if *s.KeepAlive || time.Duration(s.KeepAliveTimeout) != 90*time.Second || s.MaxConnections != 1 || s.ClientMaxBody != -1 || len(s.Labels) != 1 {
		t.Errorf("what is written must stay: %+v", s)
	}
}

func TestControllerDefaults(t *testing.T) {
	c := object(t, "kind: IngressController\nname: main\nhttpServer: {port: 8080}\nhttpsServer: {port: 8443, clientMaxBodySize: 5}\n").(*model.IngressController)
	if c.IngressClass != "easegress" || !*c.HTTPServer.KeepAlive || c.HTTPServer.ClientMaxBody != -1 || c.HTTPServer.HTTPS {
		t.Errorf("%+v", c.HTTPServer)
	}
	if !c.HTTPSServer.HTTPS || c.HTTPSServer.ClientMaxBody != 5 || c.HTTPSServer.Origin.Field != "httpsServer" {
		t.Errorf("%+v", c.HTTPSServer)
	}
}

func TestFilters(t *testing.T) {
	p := object(t, `
kind: Pipeline
name: app
flow: [{filter: a, alias: b, jumpIf: {failed: END}}]
filters:
- {kind: Other, name: a, z: {y: [1, 2.5, null]}, b: "x"}
- kind: Proxy
  name: proxy
  pools:
  - servers: [{url: "http://a", tags: [x], weight: 3, keepHost: true}]
    timeout: 1m30s
    failureCodes: [500]
- {name: plain, kind: Plain}
`).(*model.Pipeline)
	want := []model.Filter{
		{Name: "a", Kind: "Other", Raw: []byte(`{"b":"x","z":{"y":[1,2.5,null]}}`)},
		{Name: "proxy", Kind: "Proxy", Proxy: &model.Proxy{Pools: []*model.Pool{{
			Servers: []model.Server{{URL: "http://a", Tags: []string{"x"}, Weight: 3, KeepHost: true}},
			Timeout: model.Duration(90 * time.Second), FailureCodes: []int{500},
		}}}},
		{Name: "plain", Kind: "Plain", Raw: []byte(`{}`)},
	}
	if diff := cmp.Diff(want, p.Filters); diff != "" {
		t.Fatal(diff)
	}
	raw, err := json.Marshal(p.Filters)
	if err != nil {
		t.Fatal(err)
	}
	const text = `[{"name":"a","kind":"Other","b":"x","z":{"y":[1,2.5,null]}},` +
		`{"name":"proxy","kind":"Proxy","pools":[{"servers":[{"url":"http://a","tags":["x"],"weight":3,"keepHost":true}],"timeout":"1m30s","failureCodes":[500]}]},` +
		`{"name":"plain","kind":"Plain"}]`
	if string(raw) != text {
		t.Errorf("written as %s", raw)
	}
	var again []model.Filter
	if err := json.Unmarshal(raw, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`{"name": 1}`, `[]`, `{"name":"a","kind":"Proxy","pools":{}}`} {
		if err := json.Unmarshal([]byte(bad), new(model.Filter)); err == nil {
			t.Errorf("%s is no filter", bad)
		}
	}
}

func TestDuration(t *testing.T) {
	for text, want := range map[string]string{"60s": "1m", "0s": "0s", "3600s": "1h", "5400s": "1h30m", "1.5s": "1.5s", "600s": "10m", "3601s": "1h0m1s", "-1m": "-1m"} {
		var d model.Duration
		if err := json.Unmarshal([]byte(`"`+text+`"`), &d); err != nil || d.String() != want {
			t.Errorf("%s is written as %s (%v), want %s", text, d, err, want)
		}
		if back, err := time.ParseDuration(d.String()); err != nil || back != time.Duration(d) {
			t.Errorf("%s does not read back", d)
		}
	}
}

func TestParseService(t *testing.T) {
	for text, ok := range map[string]bool{"a/b:80": true, "a/b:http": true, "a/b": false, "b:80": false, "a/b:0": false, "a/b:70000": false, "A/b:80": false, "a/b-:80": false, "": false, "a/b:80:80": false} {
		if _, _, _, got := model.ParseService(text); got != ok {
			t.Errorf("ParseService(%q) is %v", text, got)
		}
	}
}

func TestEndpoint(t *testing.T) {
	for url, want := range map[string]model.Endpoint{
		"http://app.example.com":       {Address: "app.example.com:80", Host: "app.example.com"},
		"http://APP.example.com.:8080": {Address: "app.example.com:8080", Host: "app.example.com:8080"},
		"http://10.0.0.1":              {Address: "10.0.0.1:80", Host: "10.0.0.1"},
		"http://10.0.0.1:9000/":        {Address: "10.0.0.1:9000"},
		"http://[2001:DB8::1]:9000":    {Address: "[2001:db8::1]:9000"},
		"http://[::1]":                 {Address: "[::1]:80"},
	} {
		if got, ok := (&model.Server{URL: url}).Endpoint(); !ok || got != want {
			t.Errorf("%s: %+v", url, got)
		}
	}
}
