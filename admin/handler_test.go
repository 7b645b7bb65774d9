package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/telemetry"
)

func testHandler(ready Readiness) http.Handler {
	return New(Settings{
		Log: slog.New(slog.DiscardHandler), Metrics: telemetry.New().Registry(),
		Ready: func() Readiness { return ready },
		Explain: func(q *Question) []model.Step {
			return []model.Step{{Stage: "answer", OK: true, Text: q.Method + " " + q.URL.String()}}
		},
		Config:   func() []byte { return []byte("servers: []\n") },
		Problems: func() []Problem { return nil },
	})
}

type ask struct {
	method, target, peer, host string
	header                     http.Header
}

func (a ask) of(h http.Handler) *httptest.ResponseRecorder {
	if a.method == "" {
		a.method = "GET"
	}
	r := httptest.NewRequest(a.method, a.target, nil)
	r.RemoteAddr, r.Host = a.peer, a.host
	for name, values := range a.header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestG13_StrangersSeeHealthAndMetricsOnly asks every path in every way that must not get through.
func TestG13_StrangersSeeHealthAndMetricsOnly(t *testing.T) {
	h := testHandler(Readiness{})
	private := []string{"/", "/explain?url=http://a.test/", "/debug/config", "/debug/problems", "/debug/pprof/goroutine"}
	public := []string{"/healthz", "/readyz", "/metrics"}
	const near, far = "127.0.0.1:5000", "192.0.2.7:5000"
	cases := []struct {
		name string
		ask
		public, private int
	}{
		{"from this machine", ask{peer: near, host: "localhost:2381"}, 200, 200},
		{"by address", ask{peer: near, host: "127.0.0.1:2381"}, 200, 200},
		{"by IPv6", ask{peer: "[::1]:5000", host: "[::1]:2381"}, 200, 200},
		{"mapped", ask{peer: "[::ffff:127.0.0.1]:5000", host: "localhost"}, 200, 200},
		{"from elsewhere", ask{peer: far, host: "sluice.test:2381"}, 200, 403},
		{"from elsewhere, saying localhost", ask{peer: far, host: "localhost:2381", header: http.Header{"X-Forwarded-For": {"127.0.0.1"}}}, 200, 403},
		{"a name made to resolve here", ask{peer: near, host: "evil.test:2381"}, 200, 403},
		{"a name that begins well", ask{peer: near, host: "localhost.evil.test"}, 200, 403},
		{"a name that looks like an address", ask{peer: near, host: "127.0.0.1.evil.test"}, 200, 403},
		{"no host", ask{peer: near}, 200, 403},
		{"a page of another origin", ask{peer: near, host: "localhost:2381", header: http.Header{"Origin": {"http://evil.test"}}}, 200, 403},
		{"a page without an origin", ask{peer: near, host: "localhost:2381", header: http.Header{"Origin": {"null"}}}, 200, 403},
		{"a page of another port", ask{peer: near, host: "localhost:2381", header: http.Header{"Origin": {"http://localhost:80"}}}, 200, 403},
		{"its own page", ask{peer: near, host: "localhost:2381", header: http.Header{"Origin": {"http://localhost:2381"}, "Sec-Fetch-Site": {"same-origin"}}}, 200, 200},
		{"a page of another site", ask{peer: near, host: "localhost:2381", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}}, 200, 403},
		{"POST", ask{method: "POST", peer: near, host: "localhost:2381"}, 405, 405},
		{"DELETE", ask{method: "DELETE", peer: near, host: "localhost:2381"}, 405, 405},
		{"OPTIONS", ask{method: "OPTIONS", peer: near, host: "localhost:2381"}, 405, 405},
	}
	for _, c := range cases {
		for _, group := range []struct {
			targets []string
			want    int
		}{{public, c.public}, {private, c.private}} {
			for _, target := range group.targets {
				c.target = target
				if w := c.of(h); w.Code != group.want {
					t.Errorf("%s: %s answers %d, want %d: %s", c.name, target, w.Code, group.want, w.Body)
				} else if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Access-Control-Allow-Origin") != "" {
					t.Errorf("%s: %s: header %v", c.name, target, w.Header())
				}
			}
		}
	}
}

func TestReadyzSaysWhy(t *testing.T) {
	near := ask{target: "/readyz", peer: "127.0.0.1:1", host: "localhost"}
	w := near.of(testHandler(Readiness{Waiting: []string{"manifests are being read"}}))
	if w.Code != 503 || !strings.Contains(w.Body.String(), "- manifests are being read") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = near.of(testHandler(Readiness{Degraded: []string{"server x cannot listen"}}))
	if w.Code != 200 || w.Body.String() != "ready\n- degraded: server x cannot listen\n" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestExplain(t *testing.T) {
	h := testHandler(Readiness{})
	get := func(query string) *httptest.ResponseRecorder {
		return ask{target: "/explain?" + query, peer: "127.0.0.1:1", host: "localhost"}.of(h)
	}
	w := get(url.Values{"url": {"a.test/x?y"}, "header": {"A: 1", "B:2"}, "method": {"PUT"}}.Encode())
	var steps []model.Step
	if err := json.Unmarshal(w.Body.Bytes(), &steps); err != nil {
		t.Fatal(err, w.Body)
	}
	if diff := cmp.Diff([]model.Step{{Stage: "answer", OK: true, Text: "PUT http://a.test/x?y"}}, steps); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"", "url=", "url=ftp://a/", "url=http://", "url=http://a/&header=x", "url=http://a/&header=:x", "url=http://a/&client=home", "url=http://[/"} {
		if w := get(bad); w.Code != 400 || len(w.Body.String()) < 10 {
			t.Errorf("%q answers %d %s", bad, w.Code, w.Body)
		}
	}
}

func TestProfiles(t *testing.T) {
	h := testHandler(Readiness{})
	for target, want := range map[string]int{
		"heap": 200, "allocs": 200, "goroutine?debug=1": 200, "profile?seconds=1": 200,
		"profile?seconds=0": 400, "profile?seconds=51": 400, "profile?seconds=x": 400, "cmdline": 404,
	} {
		w := ask{target: "/debug/pprof/" + target, peer: "127.0.0.1:1", host: "localhost"}.of(h)
		if w.Code != want || w.Body.Len() == 0 {
			t.Errorf("%s answers %d with %d bytes, want %d", target, w.Code, w.Body.Len(), want)
		}
	}
}

func TestQuestionsSurviveTheWay(t *testing.T) {
	u, err := ParseURL("https://a.test/%2f?x=1&y=%20")
	if err != nil {
		t.Fatal(err)
	}
	q := &Question{Method: "POST", URL: u, Header: [][2]string{{"A", "b: c"}, {"A", "d"}}}
	got, err := ParseQuestion(q.Values())
	if err != nil {
		t.Fatal(err)
	}
	if got.URL.String() != u.String() || got.Method != "POST" || cmp.Diff(q.Header, got.Header) != "" {
		t.Errorf("%+v", got)
	}
}
