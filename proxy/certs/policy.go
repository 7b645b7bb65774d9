package certs

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"
)

// ticketLife is how long a session ticket key is used; it opens tickets for as long again.
const ticketLife = 12 * time.Hour

// policy is what the handshakes of entries with the same client CAs share. Session tickets are sealed by keys of the policy, so
// that no session is resumed under another, and a changed CA ends all sessions of the old one.
type policy struct {
	cas    *x509.CertPool // nil: no client certificate is asked for
	broken string         // why client certificates cannot be verified: every handshake is refused

	mu      sync.Mutex
	keys    [][32]byte // the newest seals
	renewed time.Time
}

// policy returns the policy for client CAs in PEM.
func (s *Store) policy(cas []byte) *policy {
	if p := s.policies[string(cas)]; p != nil {
		return p
	}
	p := &policy{}
	if len(cas) > 0 {
		p.cas = x509.NewCertPool()
		if !p.cas.AppendCertsFromPEM(cas) {
			p.broken = "no certificate can be read from the client CAs"
		}
	}
	s.policies[string(cas)] = p
	return p
}

func (p *policy) ticketKeys(now time.Time) [][32]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.keys) == 0 || now.Sub(p.renewed) > ticketLife {
		var fresh [32]byte
		_, _ = rand.Read(fresh[:]) // crypto/rand never fails
		p.keys, p.renewed = append([][32]byte{fresh}, p.keys[:min(1, len(p.keys))]...), now
	}
	return p.keys
}

// config is the tls.Config of one handshake.
func (p *policy) config(now time.Time, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		CipherSuites:   suites,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: certificate,
	}
	if p.cas != nil {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, p.cas
	}
	c.SetSessionTicketKeys(p.ticketKeys(now))
	return c
}

// suites are those of TLS 1.2 that are forward secret and authenticate what they encrypt (RFC 9325 §4.2); TLS 1.3 has no others.
var suites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}
