package engine

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/telemetry"
)

// secured is a config whose server has TLS, with one certificate for a.example.
func secured(c *model.Config, chain, key []byte) *model.Config {
	next := *c
	s := *c.Servers[0]
	s.HTTPS, s.TLSSet = true, "tls"
	next.Servers = []*model.HTTPServer{&s}
	next.Certificates = c.Certificates.With("c", &model.Certificate{Name: "c", Chain: chain, Key: key})
	set := &model.TLSSet{Name: "tls"}
	set.Entries = set.Entries.With("a.example", &model.TLSEntry{Host: "a.example", Certificates: []string{"c"}})
	next.TLSSets = map[string]*model.TLSSet{"tls": set}
	return &next
}

func TestACertificateIsRotatedUnderOpenConnections(t *testing.T) {
	b := newBackend(t, "v1")
	authority := testkit.NewAuthority(t)
	e := newTestEngine(t, Settings{})
	chain, key := authority.Issue(t, time.Now().Add(time.Hour), "a.example")
	c := secured(withUpstream(one(model.KindProxy), b.address), chain, key)
	e.Apply(c)
	connect := func() (*tls.Conn, string) {
		conn := tls.Client(dial(t, e), &tls.Config{RootCAs: authority.Pool(), ServerName: "a.example"})
		if err := conn.Handshake(); err != nil {
			t.Fatal(err)
		}
		return conn, conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	open, first := connect()
	conns := e.Snapshot().servers[0].conns
	for i := range 20 {
		chain, key = authority.Issue(t, time.Now().Add(time.Hour), "a.example")
		next := *c
		next.Certificates = c.Certificates.With("c", &model.Certificate{Name: "c", Chain: chain, Key: key})
		c = &next
		e.Apply(c)
		fresh, serial := connect()
		if serial == first {
			t.Fatalf("rotation %d: the certificate is the first one still", i)
		}
		fresh.Close()
		if r, _ := get(t, open, "/"); r.StatusCode != 200 {
			t.Fatalf("rotation %d: status %d on the open connection", i, r.StatusCode)
		}
	}
	if e.Snapshot().servers[0].conns != conns {
		t.Error("the connections were set up anew")
	}
}

func TestAClientThatWentAwayOverHTTP2Is499(t *testing.T) {
	b := newBackend(t, "v1")
	p := newPlayless(t)
	chain, key := testkit.NewAuthority(t).Issue(t, time.Now().Add(time.Hour), "a.example")
	p.engine.Apply(secured(withUpstream(one(model.KindProxy), b.address), chain, key))
	addr, _ := p.engine.Addr("web")
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr.String()+"/gone", nil)
	request.Header.Set("X-Do", "wait-body")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	response.Body.Close() // resets the stream; the connection stays
	record := p.records.find("the request", func(r *telemetry.Record) bool { return r.URI == "/gone" })
	if record.Status != 499 || record.Reason != "client_gone" {
		t.Errorf("record %+v", record)
	}
	request, _ = http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr.String()+"/next", nil)
	if response, err = transport.RoundTrip(request); err != nil || response.StatusCode != 200 {
		t.Fatal(fmt.Sprint(response), err)
	}
	response.Body.Close()
}

func TestTheLogHasTheRequestAsItCame(t *testing.T) {
	b := newBackend(t, "v1")
	p := newPlayless(t)
	c := withUpstream(one(model.KindProxy), b.address)
	path := *c.RuleSets["rules"].Rules[0].Paths[0]
	path.SetHeaders = map[string]string{"Host": "inner.example", "User-Agent": "", "Referer": "http://inner.example/"}
	c.RuleSets["rules"] = &model.RuleSet{Name: "rules", Kind: model.Ordered, Rules: []*model.Rule{{Paths: []*model.Path{&path}}}}
	if o := p.engine.Apply(c); len(o.Problems) > 0 {
		t.Fatal(o.Problems)
	}
	r, _ := get(t, dial(t, p.engine), "/%7ex", "User-Agent: agent", "Referer: http://elsewhere.example/")
	if seen, _ := b.saw(); seen.Get("Host") != "inner.example" || seen.Get("User-Agent") != "" {
		t.Errorf("the backend saw %v", seen)
	}
	record := p.records.of(r.Header.Get("X-Request-Id"))
	if record.Host != "a.example" || record.UserAgent != "agent" || record.Referer != "http://elsewhere.example/" || record.URI != "/%7ex" {
		t.Errorf("record %+v", record)
	}
}
