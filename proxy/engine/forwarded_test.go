package engine

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/proxy/message"
)

func headerOf(lines ...string) message.Header {
	var h message.Header
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return h
}

func linesOf(h *message.Header) (lines []string) {
	for name, value := range h.All() {
		lines = append(lines, name+": "+value)
	}
	return lines
}

func TestF2_AnUntrustedPeerForgesNothing(t *testing.T) {
	forged := []string{
		"X-Forwarded-For: 1.1.1.1", "x-forwarded-proto: https", "X-Forwarded-Host: evil", "X-Forwarded-Port: 1", "X-Forwarded-Prefix: /e",
		"X-Forwarded-Uri: /", "X-Forwarded-Method: PUT", "X-Forwarded-Server: s", "X-Forwarded-Client-Cert: c", "X-Forwarded-Tls-Client-Cert: c",
		"Forwarded: for=1.1.1.1", "X-Real-IP: 1.1.1.1", "X-REAL-ip: 2.2.2.2", "X-Original-URL: /admin", "X-Original-URI: /", "X-Rewrite-URL: /",
		"X-Envoy-External-Address: 1.1.1.1", "X-Envoy-Original-Path: /", "True-Client-IP: 1.1.1.1", "X-Client-Cert: c", "X-Client-IP: 1.1.1.1",
		"CF-Connecting-IP: 1.1.1.1", "Client-IP: 1.1.1.1", "X-Cluster-Client-IP: 1.1.1.1", "X-SSL-Client-Verify: SUCCESS", "SSL-Client-Cert: c",
		"Front-End-Https: on", "X-Request-Id: forged", "X-Forwarded: y",
		"X.Forwarded.For: 1.1.1.1", "X.Real-IP: 1.1.1.1", "X-Request.Id: forged", "x_real_ip: 1.1.1.1", "X-Forwarded_For: 1.1.1.1",
	}
	honest := []string{"Accept: */*", "X-Requested-With: fetch", "X-Real: y", "Xforwarded: y", "X-Client-Version: 3", "Cookie: a=b", "Content-Type: a/b", "From: me", "Traceparent: 00"}
	r := &message.Request{Scheme: "http", Authority: "A.example:8080", Header: headerOf(append(append([]string{}, forged...), honest...)...)}
	conn := &message.Conn{Peer: "192.0.2.7", Port: "8080"}
	forward(r, conn, &peer{addr: netip.MustParseAddr("192.0.2.7")}, "192.0.2.7")
	want := append(append([]string{}, honest...), "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: A.example:8080",
		"X-Forwarded-Proto: http", "X-Forwarded-Port: 8080", "X-Real-IP: 192.0.2.7")
	if diff := cmp.Diff(want, linesOf(&r.Header)); diff != "" {
		t.Error(diff)
	}
}

func TestF2_ATrustedPeerIsBelieved(t *testing.T) {
	r := &message.Request{Scheme: "http", Authority: "inner", Header: headerOf("X-Forwarded-For: 198.51.100.1", "Accept: */*",
		"X-Forwarded-For: 10.0.0.2", "X-Forwarded-Proto: https", "X-Forwarded-Prefix: /p", "Forwarded: for=198.51.100.1")}
	conn := &message.Conn{Peer: "10.0.0.1", Port: "8080"}
	forward(r, conn, &peer{addr: netip.MustParseAddr("10.0.0.1"), trusted: true}, "198.51.100.1")
	want := []string{
		"X-Forwarded-For: 198.51.100.1, 10.0.0.2, 10.0.0.1", "Accept: */*", "X-Forwarded-Proto: https", "X-Forwarded-Prefix: /p",
		"Forwarded: for=198.51.100.1", "X-Forwarded-Host: inner", "X-Forwarded-Port: 8080", "X-Real-IP: 198.51.100.1",
	}
	if diff := cmp.Diff(want, linesOf(&r.Header)); diff != "" {
		t.Error(diff)
	}
}

func TestF3_AliasesAreDroppedFromTrustedPeersToo(t *testing.T) {
	r := &message.Request{Header: headerOf("X.Forwarded.For: 1.1.1.1", "X.Auth.User: me", "X-Forwarded.Proto: https")}
	forward(r, &message.Conn{Peer: "10.0.0.1", Port: "80"}, &peer{addr: netip.MustParseAddr("10.0.0.1"), trusted: true}, "10.0.0.1")
	for _, alias := range []string{"X.Forwarded.For", "X-Forwarded.Proto"} {
		if r.Header.Has(alias) {
			t.Errorf("%s went on", alias)
		}
	}
	if !r.Header.Has("X.Auth.User") {
		t.Error("X.Auth.User is no alias of what the engine manages and is gone")
	}
}

func TestF2_TheClientIsFoundFromTheRight(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}
	for _, c := range []struct {
		name, peer string
		chain      []string
		want       string
	}{
		{"untrusted peers are not asked", "192.0.2.1", []string{"1.1.1.1"}, "192.0.2.1"},
		{"no chain", "10.0.0.1", nil, "10.0.0.1"},
		{"one hop", "10.0.0.1", []string{"198.51.100.9"}, "198.51.100.9"},
		{"what the client wrote itself counts for nothing", "10.0.0.1", []string{"1.1.1.1, 198.51.100.9, 10.0.0.2"}, "198.51.100.9"},
		{"over several fields", "10.0.0.1", []string{"1.1.1.1,198.51.100.9", "10.0.0.3", "10.0.0.2"}, "198.51.100.9"},
		{"all trusted: the first", "10.0.0.1", []string{"10.0.0.4, 10.0.0.3"}, "10.0.0.4"},
		{"IPv4 mapped", "10.0.0.1", []string{"9.9.9.9, ::ffff:10.0.0.2"}, "9.9.9.9"},
		{"with a port", "10.0.0.1", []string{"9.9.9.9:123"}, "9.9.9.9"},
		{"IPv6 in brackets with a port", "10.0.0.1", []string{"[2001:db9::1]:44"}, "2001:db9::1"},
		{"IPv6 in brackets", "2001:db8::1", []string{"[2001:db9::1]"}, "2001:db9::1"},
		{"no address: as far as one can tell", "10.0.0.1", []string{"1.1.1.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"empty element", "10.0.0.1", []string{"1.1.1.1,"}, "10.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h message.Header
			for _, v := range c.chain {
				h.Add("X-Forwarded-For", v)
			}
			addr := netip.MustParseAddr(c.peer)
			if got := identify(trusted, &peer{addr, contains(trusted, addr)}, &h); got.String() != c.want {
				t.Errorf("client %s, want %s", got, c.want)
			}
		})
	}
}

func TestForwardingAllocatesNothing(t *testing.T) {
	conn, p := &message.Conn{Peer: "192.0.2.7", Port: "8080"}, &peer{addr: netip.MustParseAddr("192.0.2.7")}
	r := &message.Request{Scheme: "http", Authority: "a", Header: message.HeaderOver(make([]message.Field, 32))}
	if n := testing.AllocsPerRun(100, func() {
		r.Header.Reset()
		r.Header.Add("Accept", "*/*")
		r.Header.Add("X-Forwarded-For", "1.1.1.1")
		r.Header.Add("X-Other", "1")
		forward(r, conn, p, conn.Peer)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
