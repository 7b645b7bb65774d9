package ingress

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// certificate is a Secret that something shows to clients.
type certificate struct {
	made      *model.Certificate // nil while there is no Secret
	hosts     []string           // canonical, that it is good for
	algorithm x509.PublicKeyAlgorithm
	field     string // of the Secret: where it is broken
	mend      string
}

// newCertificate reads the Secret at a path.
func newCertificate(view store.View, path string) *certificate {
	namespace, name, _ := strings.Cut(path, "/")
	key := model.Key{Kind: store.KindSecret, Namespace: namespace, Name: name}
	secret, found := store.Get[*store.Secret](view, key)
	if !found {
		return &certificate{}
	}
	c := &certificate{made: &model.Certificate{Name: path, Origin: model.Origin{Key: key}}}
	if c.made.Broken = c.read(secret); c.made.Broken == "" {
		c.made.Chain, c.made.Key = secret.Chain, secret.Key
	}
	return c
}

// read says why the Secret cannot be used; "" when it can.
func (c *certificate) read(s *store.Secret) string {
	switch {
	case !slices.Contains([]string{"", "kubernetes.io/tls", "Opaque"}, s.Type):
		c.field, c.mend = "type", "use type kubernetes.io/tls"
		return fmt.Sprintf("the type is %q", clip(s.Type))
	case s.Chain == nil:
		c.field, c.mend = "data", "put the certificate chain under tls.crt, leaf first"
		return "there is no tls.crt"
	case s.Key == nil:
		c.field, c.mend = "data", "put the private key under tls.key"
		return "there is no tls.key"
	case !hasBlock(s.Chain, "CERTIFICATE"):
		c.field, c.mend = "data[tls.crt]", "put the certificate chain there in PEM, leaf first"
		return "tls.crt holds no PEM certificate"
	case hasBlock(s.Key, "ENCRYPTED PRIVATE KEY"):
		c.field, c.mend = "data[tls.key]", "put the key there without a password"
		return "the key in tls.key is encrypted"
	case !hasBlock(s.Key, "PRIVATE KEY"):
		c.field, c.mend = "data[tls.key]", "put the private key there in PEM"
		return "tls.key holds no PEM private key"
	}
	pair, err := tls.X509KeyPair(s.Chain, s.Key)
	if err != nil {
		c.field, c.mend = "data", "put a chain and its key there, as kubectl create secret tls does"
		why := strings.TrimPrefix(err.Error(), "tls: ")
		if strings.Contains(why, "does not match") {
			why = "the key does not belong to the certificate"
		}
		return why
	}
	c.algorithm, c.hosts = pair.Leaf.PublicKeyAlgorithm, hostsOf(pair.Leaf)
	return ""
}

func hasBlock(text []byte, kind string) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, kind) {
			return true
		}
	}
	return false
}

// hostsOf are the names that a certificate is good for, as hosts of rules.
func hostsOf(leaf *x509.Certificate) []string {
	names := leaf.DNSNames
	if len(names) == 0 && leaf.Subject.CommonName != "" {
		names = []string{leaf.Subject.CommonName}
	}
	var hosts []string
	for _, name := range names {
		host, ok := canon.RuleHost(name)
		if ok && host != "" && !strings.Contains(strings.TrimPrefix(host, "*."), "*") && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// covers reports whether the certificate is good for a host, or for all that a wildcard means.
func (c *certificate) covers(host string) bool {
	_, parent, _ := strings.Cut(host, ".")
	return slices.Contains(c.hosts, host) || slices.Contains(c.hosts, "*."+parent)
}

// problem says what is wrong with a certificate to who names it at the origin.
func (c *certificate) problem(path string, at model.Origin) *model.Problem {
	p := &model.Problem{Origin: at, Severity: model.Error}
	namespace, name, _ := strings.Cut(path, "/")
	switch {
	case c.made == nil:
		p.Reason, p.Message = "SecretMissing", fmt.Sprintf("there is no Secret %q in namespace %q; the default certificate is shown", clip(name), namespace)
		p.Mend = "create it, with type kubernetes.io/tls"
	case c.made.Broken != "":
		p.Reason, p.Message, p.Mend = "SecretBroken", fmt.Sprintf("Secret %q cannot be used: %s", name, c.made.Broken), c.mend
	default:
		return nil
	}
	return p
}

// own says on the Secret what is wrong with it; nil when nothing is.
func (c *certificate) own() []model.Problem {
	if c.made == nil || c.made.Broken == "" {
		return nil
	}
	return []model.Problem{{
		Origin: model.Origin{Key: c.made.Origin.Key, Field: c.field}, Reason: "SecretBroken", Message: c.made.Broken, Mend: c.mend, Severity: model.Error,
	}}
}
