package certs

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"sync"
	"time"
	"weak"
)

// ticketLife is how long the secret behind session ticket keys is used; it opens tickets for as long again.
const ticketLife = 12 * time.Hour

// policy is what the handshakes of entries with the same client CAs share. The keys that seal session tickets come from a secret of
// the policy, so that no session is resumed under another, and a changed CA ends all sessions of the old one.
type policy struct {
	mark   string         // of the client CAs; "" without
	cas    *x509.CertPool // nil: no client certificate is asked for
	broken string         // why client certificates cannot be verified: every handshake is refused

	mu      sync.Mutex
	secrets [][32]byte // the newest seals
	renewed time.Time
}

// policy returns the policy for client CAs in PEM. It lives as long as an entry uses it.
func (s *Store) policy(cas []byte) *policy {
	key := sha256.Sum256(cas)
	if p := s.policies[key].Value(); p != nil {
		return p
	}
	p := &policy{}
	if len(cas) > 0 {
		p.mark = " " + hex.EncodeToString(key[:8])
		p.cas = x509.NewCertPool()
		if !p.cas.AppendCertsFromPEM(cas) {
			p.broken = "no certificate can be read from the client CAs"
		}
	}
	s.policies[key] = weak.Make(p)
	return p
}

// ticketKeys are the keys for the sessions of one server name under one entry: a session of another name is not resumed
// (RFC 6066 §3).
func (p *policy) ticketKeys(now time.Time, entry, name string) [][32]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.secrets) == 0 || now.Sub(p.renewed) > ticketLife {
		var fresh [32]byte
		_, _ = rand.Read(fresh[:]) // crypto/rand never fails
		p.secrets, p.renewed = append([][32]byte{fresh}, p.secrets[:min(1, len(p.secrets))]...), now
	}
	keys := make([][32]byte, len(p.secrets))
	for i := range p.secrets {
		mac := hmac.New(sha256.New, p.secrets[i][:])
		mac.Write([]byte(entry + "\x00" + name))
		mac.Sum(keys[i][:0])
	}
	return keys
}

// config is the tls.Config of one handshake.
func (p *policy) config(keys [][32]byte, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		CipherSuites:   suites,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: certificate,
	}
	if p.cas != nil {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, p.cas
	}
	c.SetSessionTicketKeys(keys)
	return c
}

// suites are those of TLS 1.2 that are forward secret and authenticate what they encrypt (RFC 9325 §4.2); TLS 1.3 has no others.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}
