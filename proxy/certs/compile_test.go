package certs

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/proxy/message"
)

func TestCompileKeepsWhatDidNotChange(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test")
	f.entry("a.test", nil, "a")
	f.entry("b.test", nil, "a")
	first, _ := f.compile()
	if again, _ := f.compile(); again != first {
		t.Error("nothing changed, and the Set is another")
	}
	f.entry("b.test", nil, "a")
	second, _ := f.compile()
	a, _ := first.entries.Get("a.test")
	if kept, _ := second.entries.Get("a.test"); kept != a {
		t.Error("an entry that did not change was made again")
	}
}

func TestAllocsOfAuthorize(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test")
	f.entry("*.a.test", nil, "a")
	f.entry("b.test", f.ca.PEM, "a")
	set, _ := f.compile()
	info := &message.TLS{ServerName: "x.a.test", EntryID: "public *.a.test", Named: true}
	for _, host := range []string{"x.a.test", "y.a.test", "b.test", "plain.test"} {
		if n := testing.AllocsPerRun(100, func() { set.Authorize(info, host) }); n > 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

// TestD3_AConnectionOfEarlierClientCAs must not go on as if it had shown what is demanded now.
func TestD3_AConnectionOfEarlierClientCAs(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test")
	f.entry("a.test", nil, "a")
	set, _ := f.compile()
	_, named, err := dial(t, set, &tls.Config{ServerName: "a.test"})
	if err != nil {
		t.Fatal(err)
	}
	_, unnamed, err := dial(t, set, &tls.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f.entry("a.test", f.ca.PEM, "a")
	set, _ = f.compile()
	if got := set.Authorize(named, "a.test"); got != message.Misdirected {
		t.Errorf("made without a client certificate: %s", got)
	}
	if got := set.Authorize(unnamed, "a.test"); got != message.ClientCertificate {
		t.Errorf("made without a name: %s", got)
	}
	_, mine, err := dial(t, set, &tls.Config{ServerName: "a.test", Certificates: []tls.Certificate{f.ca.ClientCertificate(t, "me")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Authorize(mine, "a.test"); got != message.OK {
		t.Errorf("made with one: %s", got)
	}
	f.entry("a.test", testkit.NewAuthority(t).PEM, "a")
	set, _ = f.compile()
	if got := set.Authorize(mine, "a.test"); got != message.Misdirected {
		t.Errorf("made under another CA: %s", got)
	}
	f.set = &model.TLSSet{Name: "public", ClientCAs: f.ca.PEM}
	set, _ = f.compile()
	if got := set.Authorize(unnamed, "a.test"); got != message.ClientCertificate {
		t.Errorf("the whole set demands one now: %s", got)
	}
}

// TestD6_ProblemsOfEverySet: what one set has taken note of is news to the next one too.
func TestD6_ProblemsOfEverySet(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test")
	f.entry("a.test", nil, "a")
	other := &model.TLSSet{Name: "other", Entries: f.set.Entries}
	first, _ := f.compile()
	second, _ := f.store.Compile(other, f.certs, nil)
	f.put(&model.Certificate{Name: "a", Broken: "it is gone"})
	f.put(&model.Certificate{Name: "unused", Broken: "nobody has it"})
	_, problems := f.store.Compile(f.set, f.certs, first)
	_, others := f.store.Compile(other, f.certs, second)
	if len(problems) != 1 || len(others) != 1 {
		t.Errorf("problems %v and %v", problems, others)
	}
}

func TestD6_TimePasses(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test") // for an hour
	f.entry("a.test", nil, "a")
	f.compile()
	start := f.now
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{59 * time.Minute, ""}, {2 * time.Hour, "CertificateExpired"}, {3 * time.Hour, "CertificateExpired"}, {-72 * time.Hour, "CertificateNotYetValid"}} {
		f.now = start.Add(c.after)
		if c.after < 0 { // a clock that is set back is noticed with the next change
			f.put(&model.Certificate{Name: "a", Chain: mustChain(f), Key: mustKey(f)})
		}
		if _, problems := f.compile(); reasons(problems) != c.want {
			t.Errorf("after %s: %v", c.after, problems)
		}
	}
	f.now = start
	if _, problems := f.compile(); len(problems) > 0 {
		t.Errorf("it has begun: %v", problems)
	}
}

func mustChain(f *fixture) []byte { c, _ := f.certs.Get("a"); return c.Chain }
func mustKey(f *fixture) []byte   { c, _ := f.certs.Get("a"); return c.Key }

func reasons(problems []model.Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Reason)
	}
	return strings.Join(all, " ")
}

// TestACertificateForAnotherHost is served and told, until it fits.
func TestACertificateForAnotherHost(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test", "*.w.test")
	for _, host := range []string{"a.test", "*.w.test", "x.w.test", "b.test"} {
		f.entry(host, nil, "a")
	}
	set, problems := f.compile()
	if reasons(problems) != "CertificateNameMismatch" || !strings.Contains(problems[0].Message, "for a.test, *.w.test, not for b.test") {
		t.Errorf("problems %v", problems)
	}
	if got := servedFor(t, set, "b.test"); got != "a.test" {
		t.Errorf("served %s", got)
	}
	f.certificate("a", "b.test", "*.w.test")
	if _, problems := f.compile(); reasons(problems) != "CertificateNameMismatch" || !strings.Contains(problems[0].Message, "not for a.test") {
		t.Errorf("after a rotation: %v", problems)
	}
	next := *f.set
	next.Entries = next.Entries.Without("a.test")
	f.set = &next
	if _, problems := f.compile(); len(problems) > 0 {
		t.Errorf("after the entry went: %v", problems)
	}
}

// TestCase_A05_AnotherHostHasTheDefaultCertificate: TLS concerns the hosts listed.
func TestCase_A05_AnotherHostHasTheDefaultCertificate(t *testing.T) {
	f := newFixture(t)
	f.certificate("one", "one.test")
	f.certificate("default", "default.test")
	f.entry("one.test", nil, "one")
	f.set.Default = []string{"default"}
	set, _ := f.compile()
	for name, want := range map[string]string{"one.test": "one.test", "two.test": "default.test", "": "default.test"} {
		if got := servedFor(t, set, name); got != want {
			t.Errorf("%q is served %s, want %s", name, got, want)
		}
	}
}

// TestCase_A09_AFinalDotNamesTheSameHost for Authorize, whose hosts are canonical. In a ClientHello the standard counts more than the
// report: a name with a final dot is malformed (RFC 6066 §3), and the handshake ends with decode_error. Clients strip the dot.
func TestCase_A09_AFinalDotNamesTheSameHost(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl")
	}
	f := newFixture(t)
	f.certificate("shop", "shop.test")
	f.certificate("wild", "*.w.test")
	f.entry("shop.test", nil, "shop")
	f.entry("*.w.test", nil, "wild")
	set, _ := f.compile()
	for name, host := range map[string]string{"shop.test": "shop.test.", "a.w.test": "A.w.test.:8443", "SHOP.test": "shop.test"} {
		addr, served := accept(t, set)
		out, _ := exec.Command(openssl, "s_client", "-connect", addr, "-servername", name).CombinedOutput()
		got := <-served
		if got.err != nil {
			t.Errorf("%s: %v\n%s", name, got.err, out)
			continue
		}
		canonical, _ := canon.Host(host)
		if got.info.ServerName != strings.ToLower(name) || !got.info.Named || set.Authorize(got.info, canonical) != message.OK {
			t.Errorf("%s: %+v", name, got.info)
		}
	}
	addr, served := accept(t, set)
	out, _ := exec.Command(openssl, "s_client", "-connect", addr, "-servername", "shop.test.").CombinedOutput()
	if got := <-served; got.err == nil || !strings.Contains(string(out), "decode error") {
		t.Errorf("a final dot in the hello: %v\n%s", got.err, out)
	}
}

// BenchmarkCompile changes one entry, or one certificate, among ten thousand.
func BenchmarkCompile(b *testing.B) {
	ca := testkit.NewAuthority(b)
	chain, key := ca.Issue(b, time.Now().Add(time.Hour), "*.test")
	certificates := persist.Map[*model.Certificate]{}.Edit()
	entries := persist.Map[*model.TLSEntry]{}.Edit()
	for i := range 10_000 {
		name, host := fmt.Sprintf("c%d", i), fmt.Sprintf("h%d.test", i)
		certificates.Set(name, &model.Certificate{Name: name, Chain: chain, Key: key})
		entries.Set(host, &model.TLSEntry{Host: host, Certificates: []string{name}})
	}
	s := New(Settings{})
	all, spec := certificates.Map(), &model.TLSSet{Name: "x", Entries: entries.Map()}
	set, problems := s.Compile(spec, all, nil)
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	b.Run("entry", func(b *testing.B) {
		for b.Loop() {
			next := *spec
			next.Entries = spec.Entries.With("h7.test", &model.TLSEntry{Host: "h7.test", Certificates: []string{"c8"}})
			spec = &next
			set, _ = s.Compile(spec, all, set)
		}
	})
	b.Run("certificate", func(b *testing.B) {
		for b.Loop() {
			all = all.With("c9", &model.Certificate{Name: "c9", Chain: chain, Key: key})
			set, _ = s.Compile(spec, all, set)
		}
	})
}

// TestD6_ChainOfTheWholeWorld puts a bundle of certificates behind the leaf, which no client would take.
func TestD6_ChainOfTheWholeWorld(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test")
	good, _ := f.certs.Get("a")
	f.entry("a.test", nil, "a")
	f.compile()
	long := *good
	long.Chain = bytes.Repeat(good.Chain, 400)
	f.put(&long)
	set, problems := f.compile()
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "800 certificates have") || !strings.Contains(problems[0].Message, "the last good one is served") {
		t.Errorf("problems: %v", problems)
	}
	state, _, err := dial(t, set, &tls.Config{ServerName: "a.test"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(state.PeerCertificates); n > 2 {
		t.Errorf("%d certificates are sent", n)
	}
	short := *good
	short.Chain = bytes.Repeat(good.Chain, 20)
	f.put(&short)
	if _, problems := f.compile(); len(problems) > 0 {
		t.Errorf("problems of 40 certificates: %v", problems)
	}
}
