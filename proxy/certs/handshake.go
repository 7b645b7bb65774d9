package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/proxy/message"
)

// ErrClientCA refuses handshakes for a host whose client CAs cannot be read.
var ErrClientCA = errors.New("client certificates cannot be verified")

// Handshake makes the server side of a TLS connection on conn. The context bounds it. On error the caller closes conn.
func (s *Set) Handshake(ctx context.Context, conn net.Conn) (*tls.Conn, *message.TLS, error) {
	info := &message.TLS{}
	secure := tls.Server(conn, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			info.ServerName = serverName(hello.ServerName)
			e, named := s.find(info.ServerName)
			info.EntryID, info.Named = e.id, named
			if e.policy.broken != "" {
				return nil, fmt.Errorf("%w: %s", ErrClientCA, e.policy.broken)
			}
			keys := e.policy.ticketKeys(s.store.settings.Now(), e.id, info.ServerName)
			return e.policy.config(keys, func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return s.pick(e, hello) }), nil
		},
	})
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, info, fmt.Errorf("tls handshake: %w", err)
	}
	state := secure.ConnectionState()
	info.Version, info.CipherSuite, info.ALPN, info.Resumed = state.Version, state.CipherSuite, state.NegotiatedProtocol, state.DidResume
	if len(state.VerifiedChains) > 0 {
		info.Certificates = state.VerifiedChains[0]
	}
	return secure, info, nil
}

// serverName is the canonical form of a server name, "" for one that is no host name. One with a final dot, which RFC 6066 §3 rules out,
// does not come this far: crypto/tls refuses it.
func serverName(sni string) string {
	if sni == "" || strings.Contains(sni, ":") {
		return ""
	}
	host, ok := canon.Host(sni)
	if !ok {
		return ""
	}
	return host
}
