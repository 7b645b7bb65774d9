package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// records cuts the first handshake record that a client sends into records of a few bytes each (RFC 8446 §5.1 allows it).
type records struct {
	net.Conn
	size int
	done bool
}

func (c *records) Write(p []byte) (int, error) {
	if c.done {
		return c.Conn.Write(p)
	}
	c.done = true
	head, content := p[:3], p[5:] // type and version; the length follows
	for len(content) > 0 {
		n := min(c.size, len(content))
		record := append(append([]byte{}, head...), byte(n>>8), byte(n))
		if _, err := c.Conn.Write(append(record, content[:n]...)); err != nil {
			return 0, err
		}
		content = content[n:]
	}
	return len(p), nil
}

// TestD1_AHelloInManyRecords is found its entry, whatever the size of the records; hellos with post-quantum key shares are longer than a segment.
func TestD1_AHelloInManyRecords(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test")
	f.entry("a.test", f.ca.PEM, "a")
	set, _ := f.compile()
	for _, size := range []int{1, 100, 1000} {
		addr, served := accept(t, set)
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		client := tls.Client(&records{Conn: conn, size: size}, &tls.Config{
			ServerName: "a.test", InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519},
			Certificates: []tls.Certificate{f.ca.ClientCertificate(t, "me")},
		})
		if _, err := client.Read(make([]byte, 1)); err != nil {
			t.Errorf("records of %d bytes: %v", size, err)
		}
		client.Close()
		if got := <-served; got.err != nil || !got.info.Named || len(got.info.Certificates) == 0 {
			t.Errorf("records of %d bytes: %+v %v", size, got.info, got.err)
		}
	}
}

// TestD7_RotationUnderLoad: no handshake fails while certificates change, and the next one has the new certificate.
func TestD7_RotationUnderLoad(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "v0.test", "a.test")
	f.entry("a.test", nil, "a")
	first, _ := f.compile()
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if _, err := dialOverPipe(first, "a.test"); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 20 {
		name := fmt.Sprintf("v%d.test", i+1)
		f.certificate("a", name, "a.test")
		set, _ := f.compile()
		if got, err := dialOverPipe(set, "a.test"); err != nil || got != name {
			t.Errorf("served %s, want %s (%v)", got, name, err)
		}
	}
	cancel()
	clients.Wait()
}

// dialOverPipe makes one handshake and returns the first name of the certificate that was served.
func dialOverPipe(set *Set, name string) (served string, err error) {
	server, client := net.Pipe()
	defer server.Close()
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, _, err := set.Handshake(ctx, server)
		if err != nil {
			server.Close()
		}
		failed <- err
	}()
	secure := tls.Client(client, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err := secure.HandshakeContext(ctx); err != nil {
		return "", err
	}
	go func() { _, _ = secure.Read(make([]byte, 1)) }() // the server writes tickets before it is done
	if err := <-failed; err != nil {
		return "", err
	}
	state := secure.ConnectionState()
	return state.PeerCertificates[0].DNSNames[0], nil
}

func TestExplain(t *testing.T) {
	f := newFixture(t)
	f.certificate("a", "a.test", "mutual.test")
	f.entry("a.test", nil, "a")
	f.entry("wrong.test", nil, "a")
	f.entry("missing.test", nil, "nowhere")
	f.entry("closed.test", []byte("garbage"), "a")
	f.entry("mutual.test", f.ca.PEM, "a")
	set, _ := f.compile()
	for name, want := range map[string]string{
		"A.test":       "server name a.test selects the TLS entry a.test: certificate a for a.test, mutual.test until",
		"wrong.test":   "it is not for wrong.test",
		"missing.test": "nowhere cannot be used; the self-signed default certificate stands in",
		"closed.test":  "handshakes are refused, no certificate can be read from the client CAs",
		"mutual.test":  "clients must present a certificate",
		"other.test":   "no TLS entry is for other.test: the self-signed default certificate stands in",
		"":             "no server name is sent: the self-signed default certificate stands in",
	} {
		steps := set.Explain(name)
		if len(steps) != 1 || !strings.Contains(steps[0].Text, want) || steps[0].OK != (name != "closed.test") {
			t.Errorf("%q: %+v, want %q", name, steps, want)
		}
		if mended := steps[0].Mend != ""; mended != (name == "closed.test" || name == "wrong.test") {
			t.Errorf("%q: mend %q", name, steps[0].Mend)
		}
	}
}
