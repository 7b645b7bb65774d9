package native

import (
	"crypto/x509"
	"encoding/pem"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
)

// tlsSet makes what a server presents: each certificate for the names it has, the first of a name before the others, and the
// first of all for every other name. A broken one stays in its place, where the proxy keeps the last that was good.
func tlsSet(s *model.HTTPServer) (*model.TLSSet, []*model.Certificate) {
	all := s.InlineCertificates()
	set := &model.TLSSet{Name: s.Name, Origin: within(s.Origin, "caCertBase64")}
	set.ClientCAs, _ = s.ClientCAs() // Validate has the problem; what it returns verifies nothing
	if len(all) > 0 {
		set.Default = []string{all[0].Name}
	}
	entries := set.Entries.Edit()
	kinds := map[string]map[x509.PublicKeyAlgorithm]bool{} // by host: the key types it has
	for _, cert := range all {
		leaf := leafOf(cert.Chain)
		if leaf == nil {
			continue
		}
		for _, host := range namesOf(leaf) {
			entry, _ := entries.Get(host)
			switch {
			case entry == nil:
				entries.Set(host, &model.TLSEntry{Host: host, Certificates: []string{cert.Name}, ClientCAs: set.ClientCAs, Origin: cert.Origin})
				kinds[host] = map[x509.PublicKeyAlgorithm]bool{leaf.PublicKeyAlgorithm: true}
			case !kinds[host][leaf.PublicKeyAlgorithm]:
				kinds[host][leaf.PublicKeyAlgorithm] = true
				entry.Certificates = append(entry.Certificates, cert.Name)
			}
		}
	}
	set.Entries = entries.Map()
	return set, all
}

func leafOf(chain []byte) *x509.Certificate {
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil // the pair was parsed before, so this is none of ours
		}
		return leaf
	}
	return nil
}

// namesOf are the DNS names of a certificate, canonical; its common name when it has none.
func namesOf(leaf *x509.Certificate) []string {
	names := leaf.DNSNames
	if len(names) == 0 && leaf.Subject.CommonName != "" {
		names = []string{leaf.Subject.CommonName}
	}
	var hosts []string
	for _, name := range names {
		if host, ok := canon.RuleHost(name); ok && host != "" && !strings.Contains(strings.TrimPrefix(host, "*."), "*") {
			hosts = append(hosts, host)
		}
	}
	return hosts
}
