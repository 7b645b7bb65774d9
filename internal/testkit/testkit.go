// Package testkit is what tests of several packages share: backends that say who they are, polling with a deadline, and
// certificates. Only tests import it.
package testkit

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Backend is an HTTP server that answers every request with its name, in the field X-Backend and as the first line of the body;
// the request's head as it arrived follows.
type Backend struct {
	Name string
	Port int
	srv  *httptest.Server
}

// NewBackend starts a Backend on a loopback port; it ends with the test.
func NewBackend(t testing.TB, name string) *Backend {
	t.Helper()
	b := &Backend{Name: name}
	b.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Backend", name)
		fmt.Fprintf(w, "%s\n%s %s %s\nHost: %s\n", name, r.Method, r.RequestURI, r.Proto, r.Host)
		_ = r.Header.Write(w) // a client that left is the test's business
	}))
	b.Port = b.srv.Listener.Addr().(*net.TCPAddr).Port
	t.Cleanup(b.Close)
	return b
}

// Close stops the backend at once, connections included.
func (b *Backend) Close() {
	b.srv.CloseClientConnections()
	b.srv.Close()
}

// Eventually polls until ok reports true, and fails the test when it does not within limit.
func Eventually(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		if ok() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// FreePort returns a loopback port that nobody listened on a moment ago.
func FreePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Authority signs certificates for tests.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
	PEM         []byte // its own certificate
}

// NewAuthority makes a certificate authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{certificate, key, 1, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// Pool is the authority as a trust root.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Issue returns chain and key (ECDSA), in PEM, for the names, valid until notAfter.
func (a *Authority) Issue(t testing.TB, notAfter time.Time, names ...string) (chain, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return a.sign(t, private, notAfter, names)
}

// IssueRSA is Issue with an RSA key.
func (a *Authority) IssueRSA(t testing.TB, notAfter time.Time, names ...string) (chain, key []byte) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return a.sign(t, private, notAfter, names)
}

func (a *Authority) sign(t testing.TB, private crypto.Signer, notAfter time.Time, names []string) (chain, key []byte) {
	t.Helper()
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: notAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, der := range [][]byte{der, a.certificate.Raw} {
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// ClientCertificate issues a certificate for a TLS client.
func (a *Authority) ClientCertificate(t testing.TB, name string) tls.Certificate {
	t.Helper()
	chain, key := a.Issue(t, time.Now().Add(time.Hour), name)
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}
