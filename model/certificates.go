package model

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
)

// InlineCertificates returns the certificates that stand in the server itself, certBase64 first, then certs by name. One that
// cannot be used says so in Broken.
func (s *HTTPServer) InlineCertificates() []*Certificate {
	var all []*Certificate
	add := func(field at, chain, key string) {
		c := &Certificate{Name: KindHTTPServer + "/" + s.Name + "/" + string(field), Origin: s.Origin}
		c.Origin.Field = string(field)
		c.Chain, c.Key, c.Broken = keyPair(chain, key)
		all = append(all, c)
	}
	if s.CertBase64 != "" || s.KeyBase64 != "" {
		add("certBase64", s.CertBase64, s.KeyBase64)
	}
	names := map[string]string{}
	for name := range s.Certs {
		names[name] = ""
	}
	for name := range s.Keys {
		names[name] = ""
	}
	for _, name := range sortedKeys(names) {
		add(at("certs").key(name), s.Certs[name], s.Keys[name])
	}
	return all
}

// ClientCAs returns the certificates, in PEM, that client certificates must be verified by; nil where none are demanded. Where
// they cannot be read, problem says why and pem is something that verifies nothing.
func (s *HTTPServer) ClientCAs() (pem []byte, problem string) {
	if s.CACertBase64 == "" {
		return nil, ""
	}
	pem, problem = pemText(s.CACertBase64)
	if problem == "" && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		problem = "it holds no PEM certificate"
	}
	if problem != "" {
		return []byte("broken"), problem
	}
	return pem, ""
}

// keyPair returns a certificate chain and its key as PEM, or why they are no pair.
func keyPair(certText, keyText string) (chain, key []byte, broken string) {
	chain, certProblem := pemText(certText)
	key, keyProblem := pemText(keyText)
	switch {
	case certText == "":
		return nil, nil, "there is a key without a certificate"
	case keyText == "":
		return nil, nil, "there is a certificate without a key"
	case certProblem != "":
		return nil, nil, "the certificate is unusable: " + certProblem
	case keyProblem != "":
		return nil, nil, "the key is unusable: " + keyProblem
	case !hasBlock(chain, "CERTIFICATE"):
		return nil, nil, "the certificate is unusable: it holds no PEM certificate"
	case hasBlock(key, "ENCRYPTED PRIVATE KEY") || strings.Contains(string(key), "Proc-Type: 4,ENCRYPTED"):
		return nil, nil, "the key is encrypted"
	case !hasBlock(key, "PRIVATE KEY"):
		return nil, nil, "the key is unusable: it holds no PEM private key"
	}
	if _, err := tls.X509KeyPair(chain, key); err != nil {
		message := strings.TrimPrefix(err.Error(), "tls: ")
		if strings.Contains(message, "does not match") {
			message = "the key does not belong to the certificate"
		}
		return nil, nil, message
	}
	return chain, key, ""
}

// pemText returns PEM that is written as it is or in base64.
func pemText(text string) (raw []byte, problem string) {
	if strings.Contains(text, "-----BEGIN") {
		return []byte(text), ""
	}
	raw, err := base64.StdEncoding.DecodeString(stripSpace(text))
	if err != nil {
		return nil, "it is neither PEM nor base64 of PEM"
	}
	return raw, ""
}

// hasBlock reports whether PEM text has a block of a type that ends with kind.
func hasBlock(text []byte, kind string) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, kind) {
			return true
		}
	}
	return false
}

// certificates checks the TLS side of a server.
func (c *check) certificates(s *HTTPServer) {
	all := s.InlineCertificates()
	for _, cert := range all {
		if cert.Broken == "" {
			continue
		}
		mend := "write the PEM text or its base64; certificate and key go together by their name"
		if cert.Origin.Field == "certBase64" {
			mend = "set certBase64 and keyBase64 to the base64 of the PEM texts of one pair"
		}
		c.wrong(at(cert.Origin.Field), "InvalidCertificate", cert.Broken, mend)
	}
	_, problem := s.ClientCAs()
	switch {
	case problem != "":
		c.wrong("caCertBase64", "InvalidCertificate", fmt.Sprintf("no client can be verified: %s", problem), "set it to the base64 of the CA's PEM text; until then every client is refused")
	case s.CACertBase64 != "" && !s.HTTPS:
		c.wrong("caCertBase64", "Unused", "client certificates are demanded, but the server has no TLS", "set https: true, or remove it")
	}
	switch {
	case s.HTTPS && len(all) == 0 && s.TLSSet == "":
		c.doubt("https", "CertificateMissing", "the server has no certificate, so clients get a self-signed one", "set certBase64 and keyBase64, or certs and keys")
	case !s.HTTPS && len(all) > 0:
		c.doubt(at(all[0].Origin.Field), "Unused", "the server has a certificate, but no TLS", "set https: true, or remove them")
	}
}
