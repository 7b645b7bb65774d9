package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/proxy/message"
)

// fixture builds Sets from short descriptions.
type fixture struct {
	t     *testing.T
	ca    *testkit.Authority
	store *Store
	now   time.Time
	certs persist.Map[*model.Certificate]
	set   *model.TLSSet
	last  *Set
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, ca: testkit.NewAuthority(t), now: time.Now(), set: &model.TLSSet{Name: "public"}}
	f.store = New(Settings{Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return f.now }})
	return f
}

// certificate puts a good certificate under a name.
func (f *fixture) certificate(name string, hosts ...string) {
	chain, key := f.ca.Issue(f.t, f.now.Add(time.Hour), hosts...)
	f.put(&model.Certificate{Name: name, Chain: chain, Key: key, Origin: model.Origin{Key: model.Key{Kind: "Secret", Namespace: "default", Name: name}}})
}

func (f *fixture) put(c *model.Certificate) { f.certs = f.certs.With(c.Name, c) }

func (f *fixture) entry(host string, cas []byte, names ...string) {
	next := *f.set
	next.Entries = f.set.Entries.With(host, &model.TLSEntry{Host: host, Certificates: names, ClientCAs: cas})
	f.set = &next
}

func (f *fixture) compile() (*Set, []model.Problem) {
	f.t.Helper()
	set, problems := f.store.Compile(f.set, f.certs, f.last)
	f.last = set
	return set, problems
}

// side is what one handshake was to the server.
type side struct {
	info *message.TLS
	err  error
}

// accept serves one connection.
func accept(t *testing.T, set *Set) (addr string, served <-chan side) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	server := make(chan side, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			server <- side{nil, err}
			return
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		secure, info, err := set.Handshake(ctx, conn)
		if err == nil {
			_, _ = secure.Write([]byte("x")) // carries the session ticket to the client, which reads it
			_, _ = secure.Read(make([]byte, 1))
		}
		server <- side{info, err}
	}()
	return l.Addr().String(), server
}

// dial makes a handshake and returns both views of it.
func dial(t *testing.T, set *Set, config *tls.Config) (tls.ConnectionState, *message.TLS, error) {
	t.Helper()
	addr, server := accept(t, set)
	config = config.Clone()
	config.InsecureSkipVerify = true
	conn, err := tls.Dial("tcp", addr, config)
	var state tls.ConnectionState
	if err == nil {
		if _, err = conn.Read(make([]byte, 1)); err == nil {
			state = conn.ConnectionState()
		}
		conn.Close()
	}
	got := <-server
	if err == nil {
		err = got.err
	}
	return state, got.info, err
}

func servedFor(t *testing.T, set *Set, name string) string {
	t.Helper()
	state, _, err := dial(t, set, &tls.Config{ServerName: name})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return state.PeerCertificates[0].DNSNames[0]
}

func TestServerNameSelects(t *testing.T) {
	f := newFixture(t)
	f.certificate("exact", "a.test")
	f.certificate("wild", "*.w.test")
	f.certificate("deep", "deep.w.test")
	f.entry("a.test", nil, "exact")
	f.entry("*.w.test", nil, "wild")
	f.entry("deep.w.test", nil, "deep")
	set, problems := f.compile()
	if len(problems) > 0 {
		t.Errorf("problems %v", problems)
	}
	for name, want := range map[string]string{
		"a.test": "a.test", "A.TEST": "a.test", "x.w.test": "*.w.test", "deep.w.test": "deep.w.test",
		"x.y.w.test": defaultName, "w.test": defaultName, "other.test": defaultName,
	} {
		if got := servedFor(t, set, name); got != want {
			t.Errorf("%s is served %s, want %s", name, got, want)
		}
	}
	state, info, err := dial(t, set, &tls.Config{})
	if err != nil || state.PeerCertificates[0].DNSNames[0] != defaultName || info.Named {
		t.Errorf("without a name: %v %+v", err, info)
	}
	if _, info, _ := dial(t, set, &tls.Config{ServerName: "a.test", NextProtos: []string{"h2"}}); info.ALPN != "h2" || !info.Named || info.EntryID != "public a.test" {
		t.Errorf("info %+v", info)
	}
}

// TestD1_ASplitClientHello sends the hello one byte at a time.
func TestD1_ASplitClientHello(t *testing.T) {
	f := newFixture(t)
	f.certificate("exact", "a.test")
	f.entry("a.test", nil, "exact")
	set, _ := f.compile()
	server, client := net.Pipe()
	result := make(chan *message.TLS, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, info, err := set.Handshake(ctx, server)
		if err != nil {
			info = nil
		}
		result <- info
	}()
	conn := tls.Client(oneByteWrites{client}, &tls.Config{ServerName: "a.test", InsecureSkipVerify: true})
	if err := conn.Handshake(); err != nil {
		t.Fatal(err)
	}
	if info := <-result; info == nil || info.ServerName != "a.test" {
		t.Errorf("server saw %+v", info)
	}
}

type oneByteWrites struct{ net.Conn }

func (c oneByteWrites) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// TestD1_AHelloThatStops is cut off at the deadline.
func TestD1_AHelloThatStops(t *testing.T) {
	f := newFixture(t)
	set, _ := f.compile()
	server, client := net.Pipe()
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	go func() { _, _ = client.Write([]byte{22, 3, 1}) }()
	if _, _, err := set.Handshake(ctx, server); err == nil {
		t.Error("a handshake that stops succeeded")
	}
}

// TestD2_NoNameStillObeysTheClientCA: a set that demands client certificates demands them for no and for unknown names too.
func TestD2_NoNameStillObeysTheClientCA(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test")
	f.entry("a.test", nil, "a")
	f.set.ClientCAs = f.ca.PEM
	set, _ := f.compile()
	for _, name := range []string{"", "a.test", "unknown.test"} {
		if _, _, err := dial(t, set, &tls.Config{ServerName: name}); err == nil {
			t.Errorf("%q: a client without a certificate got in", name)
		}
		mine := f.ca.ClientCertificate(t, "me")
		_, info, err := dial(t, set, &tls.Config{ServerName: name, Certificates: []tls.Certificate{mine}})
		if err != nil || len(info.Certificates) == 0 {
			t.Errorf("%q: a client with one did not: %v", name, err)
		}
	}
}

// TestD3_AnotherEntrysHostIsMisdirected is the 421 row of docs/responses.md.
func TestD3_AnotherEntrysHostIsMisdirected(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test")
	f.certificate("b", "b.test")
	f.certificate("m", "m.test")
	f.entry("a.test", nil, "a")
	f.entry("b.test", nil, "b")
	f.entry("m.test", f.ca.PEM, "m")
	set, _ := f.compile()
	mine := tls.Config{Certificates: []tls.Certificate{f.ca.ClientCertificate(t, "me")}}
	for _, c := range []struct {
		name, host string
		want       message.Reason
	}{
		{"a.test", "a.test", message.OK},
		{"a.test", "b.test", message.Misdirected},
		{"a.test", "plain.test", message.OK},
		{"a.test", "m.test", message.Misdirected},
		{"", "a.test", message.OK},
		{"unknown.test", "b.test", message.OK},
		{"", "m.test", message.ClientCertificate},
		{"unknown.test", "m.test", message.ClientCertificate},
		{"m.test", "m.test", message.OK},
		{"m.test", "a.test", message.Misdirected},
	} {
		config := mine.Clone()
		config.ServerName = c.name
		_, info, err := dial(t, set, config)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := set.Authorize(info, c.host); got != c.want {
			t.Errorf("name %q, host %s: %s, want %s", c.name, c.host, got, c.want)
		}
	}
	if got := set.Authorize(nil, "m.test"); got != message.OK {
		t.Errorf("plain connection: %s", got)
	}
}

// TestD4_NoSessionCrossesPolicies resumes within an entry, not into one with a client CA, and not after the CA changed.
func TestD4_NoSessionCrossesPolicies(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test", "m.test")
	f.entry("a.test", nil, "a")
	f.entry("m.test", f.ca.PEM, "a")
	set, _ := f.compile()
	cache := &oneSession{}
	config := &tls.Config{ServerName: "a.test", ClientSessionCache: cache, Certificates: []tls.Certificate{f.ca.ClientCertificate(t, "me")}}
	resumed := func(name string) bool {
		t.Helper()
		c := config.Clone()
		c.ServerName = name
		_, info, err := dial(t, set, c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return info.Resumed
	}
	if resumed("a.test") {
		t.Error("the first handshake was resumed")
	}
	if !resumed("a.test") {
		t.Error("the second handshake was not resumed")
	}
	if resumed("m.test") {
		t.Error("a session without a client certificate was resumed where one is demanded")
	}
	if !resumed("m.test") {
		t.Error("no resumption under a client CA")
	}
	other := testkit.NewAuthority(t)
	f.entry("m.test", append(append([]byte{}, other.PEM...), f.ca.PEM...), "a")
	set, _ = f.compile()
	if resumed("m.test") {
		t.Error("a session of the old client CAs was resumed")
	}
}

// TestD4_NoSessionCrossesNames, whatever the version (RFC 6066 §3), and a resumed one still knows who the client is.
func TestD4_NoSessionCrossesNames(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		f := newFixture(t)
		f.certificate("a", "a.test", "b.test", "*.w.test")
		f.set.ClientCAs = f.ca.PEM
		for _, host := range []string{"a.test", "b.test", "*.w.test"} {
			f.entry(host, nil, "a")
		}
		set, _ := f.compile()
		cache := &oneSession{}
		ask := func(name string) *message.TLS {
			t.Helper()
			_, info, err := dial(t, set, &tls.Config{
				ServerName: name, ClientSessionCache: cache, Certificates: []tls.Certificate{f.ca.ClientCertificate(t, "me")},
				MinVersion: version, MaxVersion: version,
			})
			if err != nil {
				t.Fatal(err)
			}
			return info
		}
		for _, name := range []string{"a.test", "b.test", "x.w.test", "y.w.test", "unknown.test", "other.test"} {
			if ask(name).Resumed {
				t.Errorf("%x: a session of another name was resumed for %s", version, name)
			}
			if again := ask(name); !again.Resumed || len(again.Certificates) == 0 || again.Certificates[0].Subject.CommonName != "me" {
				t.Errorf("%x: again for %s: %+v", version, name, again)
			}
		}
	}
}

// oneSession offers its one session to every server name.
type oneSession struct{ state *tls.ClientSessionState }

func (c *oneSession) Get(string) (*tls.ClientSessionState, bool) { return c.state, c.state != nil }

func (c *oneSession) Put(_ string, state *tls.ClientSessionState) {
	if state != nil {
		c.state = state
	}
}

// TestD5_AGarbledClientCAFailsClosed for its entry, and for nobody else.
func TestD5_AGarbledClientCAFailsClosed(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test")
	f.entry("a.test", nil, "a")
	f.entry("m.test", []byte("garbage"), "a")
	set, problems := f.compile()
	mine := []tls.Certificate{f.ca.ClientCertificate(t, "me")}
	if _, _, err := dial(t, set, &tls.Config{ServerName: "m.test", Certificates: mine}); err == nil {
		t.Error("a handshake succeeded")
	}
	servedFor(t, set, "a.test")
	if len(problems) != 1 || problems[0].Reason != "ClientCAInvalid" {
		t.Errorf("problems %v", problems)
	}
}

// TestD6_TheLastGoodCertificateStays while its object is broken, and goes with its object.
func TestD6_TheLastGoodCertificateStays(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "good.test", "a.test")
	f.certificate("b", "b.test")
	f.entry("a.test", nil, "a")
	f.entry("b.test", nil, "b")
	f.compile()
	chain, _ := f.ca.Issue(t, f.now.Add(time.Hour), "x.test")
	_, key := f.ca.Issue(t, f.now.Add(time.Hour), "x.test")
	for what, broken := range map[string]*model.Certificate{
		"garbage":          {Name: "a", Chain: []byte("garbage"), Key: []byte("garbage")},
		"another's key":    {Name: "a", Chain: chain, Key: key},
		"said to be so":    {Name: "a", Broken: "Secret has no tls.key"},
		"nothing":          {Name: "a"},
		"key and no chain": {Name: "a", Key: key},
	} {
		f.put(broken)
		set, problems := f.compile()
		if got := servedFor(t, set, "a.test"); got != "good.test" {
			t.Errorf("%s: served %s", what, got)
		}
		servedFor(t, set, "b.test")
		if len(problems) != 1 || problems[0].Reason != "CertificateInvalid" || !strings.Contains(problems[0].Message, "last good") {
			t.Errorf("%s: problems %v", what, problems)
		}
	}
	f.certs = f.certs.Without("a")
	set, _ := f.compile()
	if got := servedFor(t, set, "a.test"); got != defaultName {
		t.Errorf("after its removal %s is served", got)
	}
	f.certificate("a", "new.test", "a.test")
	set, problems := f.compile()
	if got := servedFor(t, set, "a.test"); got != "new.test" || len(problems) > 0 {
		t.Errorf("after its return %s is served, problems %v", got, problems)
	}
}

func TestD6_AnExpiredCertificateIsServedAndTold(t *testing.T) {
	f := newFixture(t)
	chain, key := f.ca.Issue(t, f.now.Add(-time.Hour), "old.test")
	f.put(&model.Certificate{Name: "old", Chain: chain, Key: key})
	f.entry("old.test", nil, "old")
	set, problems := f.compile()
	if got := servedFor(t, set, "old.test"); got != "old.test" {
		t.Errorf("served %s", got)
	}
	if len(problems) != 1 || problems[0].Reason != "CertificateExpired" {
		t.Errorf("problems %v", problems)
	}
	if step := set.Explain("old.test"); !strings.Contains(step[0].Text, "expired") {
		t.Errorf("explained as %+v", step)
	}
}

// TestRotationReachesASetThatIsInUse: connections accepted under the old Set see the new certificate.
func TestRotationReachesASetThatIsInUse(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "one.test")
	f.entry("a.test", nil, "a")
	old, _ := f.compile()
	for i := range 5 {
		name := fmt.Sprintf("v%d.test", i)
		f.certificate("a", name)
		f.compile()
		if got := servedFor(t, old, "a.test"); got != name {
			t.Errorf("served %s, want %s", got, name)
		}
	}
}

func TestSeveralKeyTypes(t *testing.T) {
	f := newFixture(t)
	f.certificate("ecdsa", "ecdsa.test")
	chain, key := f.ca.IssueRSA(t, f.now.Add(time.Hour), "rsa.test")
	f.put(&model.Certificate{Name: "rsa", Chain: chain, Key: key})
	f.entry("a.test", nil, "rsa", "ecdsa")
	set, _ := f.compile()
	if got := servedFor(t, set, "a.test"); got != "ecdsa.test" {
		t.Errorf("a modern client is served %s", got)
	}
	state, _, err := dial(t, set, &tls.Config{ServerName: "a.test", MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}})
	if err != nil || state.PeerCertificates[0].PublicKeyAlgorithm != x509.RSA {
		t.Errorf("a client without ECDSA: %v", err)
	}
}

func TestD8_OldVersionsAndSuitesAreRefused(t *testing.T) {
	f := newFixture(t)
	set, _ := f.compile()
	for _, config := range []*tls.Config{
		{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11},
		{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}},
		{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}},
	} {
		if _, _, err := dial(t, set, config); err == nil {
			t.Errorf("accepted %+v", config)
		}
	}
}
