package engine

import (
	"net/netip"
	"strings"
	"testing"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filters"
	"sluice.dev/sluice/proxy/message"
)

func TestExplain(t *testing.T) {
	e := newTestEngine(t, Settings{Filters: filters.Builtin()})
	c := hosts(3, "127.0.0.1:1")
	empty := &model.Upstream{Name: "h2.example", Reason: message.ServiceMissing.String(), Detail: "Route test/h2.example spec.rules[0]"}
	c.Upstreams = c.Upstreams.With("h2.example", empty)
	limited := ruleFor("h1.example", "/only")
	limited.IPFilter = &model.IPFilter{BlockIPs: []string{"192.0.2.1"}}
	c = with(c, limited)
	e.Apply(c)
	for _, q := range []struct {
		question Question
		stages   string
		answer   string
	}{
		{Question{Host: "h0.example", Path: "/"}, "listener host path filters endpoints answer", "what the endpoint answers"},
		{Question{Host: "H0.example:80", Path: "/x/../y"}, "listener host path filters endpoints answer", "what the endpoint answers"},
		{Question{Host: "h2.example", Path: "/"}, "listener host path filters endpoints answer", "503 Service Unavailable (reason service_missing)"},
		{Question{Host: "h1.example", Path: "/other"}, "listener host path answer", "404 Not Found (reason route_not_found)"},
		{Question{Host: "other.example", Path: "/"}, "listener host answer", "404 Not Found (reason host_not_found)"},
		{Question{Host: "h1.example", Path: "/only", Client: netip.MustParseAddr("192.0.2.1")}, "listener host path filters answer", "403 Forbidden (reason ip_denied)"},
		{Question{Host: "a,b", Path: "/"}, "listener host answer", "400 Bad Request (reason bad_host)"},
		{Question{Host: "h0.example", Path: "/%00"}, "listener path answer", "400 Bad Request (reason bad_target)"},
		{Question{Host: "h0.example", Path: "/", Method: "TRACE"}, "listener request answer", "405 Method Not Allowed (reason method_refused)"},
		{Question{Host: "h0.example", Path: "/", Method: "G ET"}, "listener request answer", "400 Bad Request (reason malformed_request)"},
		{Question{Host: "h0.example", Path: "/", Header: fields("Expect", "x")}, "listener request answer", "417 Expectation Failed (reason expectation_failed)"},
		{Question{Host: "h0.example", Path: "/", Header: fields("Transfer-Encoding", "gzip")}, "listener request answer", "501 Not Implemented (reason unknown_transfer_coding)"},
		{Question{Host: "h0.example", Path: "/" + strings.Repeat("x", 17000)}, "listener request answer", "414 Request URI Too Long (reason target_too_long)"},
		{Question{Host: "h0.example", Path: "/", Header: fields("X", strings.Repeat("x", 40000))}, "listener request answer", "431 Request Header Fields Too Large (reason head_too_large)"},
		{Question{TLS: true, Host: "h0.example", Path: "/"}, "listener", "no server takes TLS"},
	} {
		steps := e.Explain(&q.question)
		var stages []string
		for _, s := range steps {
			stages = append(stages, s.Stage)
		}
		if got := strings.Join(stages, " "); got != q.stages {
			t.Errorf("%s%s: stages %s, want %s", q.question.Host, q.question.Path, got, q.stages)
		}
		if last := steps[len(steps)-1]; last.Text != q.answer {
			t.Errorf("%s%s: answer %q, want %q", q.question.Host, q.question.Path, last.Text, q.answer)
		}
	}
}

func fields(name, value string) (h message.Header) {
	h.Add(name, value)
	return h
}

// TestExplainWhoMayCome asks for clients that IP filters keep out, in the order in which a request meets them.
func TestExplainWhoMayCome(t *testing.T) {
	e := newTestEngine(t, Settings{Filters: filters.Builtin(), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	c := hosts(1, "127.0.0.1:1")
	rule := ruleFor("h0.example", "/")
	rule.IPFilter = &model.IPFilter{BlockIPs: []string{"192.0.2.0/24"}}
	rule.Paths[0].IPFilter = &model.IPFilter{BlockIPs: []string{"192.0.2.2"}}
	c = with(c, rule)
	server := *c.Servers[0]
	server.IPFilter = &model.IPFilter{BlockIPs: []string{"192.0.2.1"}}
	c.Servers = []*model.HTTPServer{&server}
	e.Apply(c)
	for _, q := range []struct {
		client, forwarded, host, stages, text string
	}{
		{"192.0.2.1", "", "h0.example", "listener filters answer", "the server's IP filter keeps 192.0.2.1 out"},
		{"192.0.2.1", "", "unknown.example", "listener filters answer", "the server's IP filter keeps 192.0.2.1 out"},
		{"192.0.2.2", "", "h0.example", "listener host path filters answer", "the rule's IP filter keeps 192.0.2.2 out"},
		{"192.0.2.2", "192.0.2.9", "h0.example", "listener host path filters answer", "the rule's IP filter keeps 192.0.2.2 out"},
		{"10.0.0.1", "192.0.2.9", "h0.example", "listener host path filters answer", "the rule's IP filter keeps 192.0.2.9 out"},
		{"10.0.0.1", "", "h0.example", "listener host path filters endpoints answer", ""},
		{"", "", "h0.example", "listener host path filters endpoints answer", ""},
	} {
		question := &Question{Host: q.host, Path: "/"}
		if q.client != "" {
			question.Client = netip.MustParseAddr(q.client)
		}
		if q.forwarded != "" {
			question.Header = fields("X-Forwarded-For", q.forwarded)
		}
		var stages []string
		steps := e.Explain(question)
		for _, s := range steps {
			stages = append(stages, s.Stage)
			if s.Stage == "filters" && q.text != "" && s.Text != q.text {
				t.Errorf("%+v: %q", q, s.Text)
			}
		}
		if got := strings.Join(stages, " "); got != q.stages {
			t.Errorf("%+v: stages %s", q, got)
		}
	}
}

// TestExplainRedirect asks for a pipeline that sends plain HTTP to HTTPS.
func TestExplainRedirect(t *testing.T) {
	e := newTestEngine(t, Settings{Filters: filters.Builtin(), TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	c := hosts(1, "127.0.0.1:1")
	pipeline, _ := c.Pipelines.Get("h0.example")
	secure := *pipeline
	secure.Filters = append([]model.Filter{{Name: "tls", Kind: "HTTPSRedirect", Raw: []byte(`{"port": 8443}`)}}, secure.Filters...)
	c.Pipelines = c.Pipelines.With("h0.example", &secure)
	e.Apply(c)
	answer := func(q *Question) string { steps := e.Explain(q); return steps[len(steps)-1].Text }
	if got, want := answer(&Question{Host: "h0.example:80", Path: "/a", RawQuery: "b=c"}), "308 Permanent Redirect (reason redirect) to https://h0.example:8443/a?b=c"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	q := &Question{Host: "h0.example", Path: "/a", Header: fields("X-Forwarded-Proto", "https")}
	if got := answer(q); !strings.HasPrefix(got, "308 ") {
		t.Errorf("what anybody says of the scheme counts: %q", got)
	}
	q.Client = netip.MustParseAddr("10.0.0.1")
	if got := answer(q); got != "what the endpoint answers" {
		t.Errorf("what a trusted proxy says of the scheme does not count: %q", got)
	}
}
