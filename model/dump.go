package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"slices"
	"strings"

	"sluice.dev/sluice/model/document"
)

// Dump writes a config as YAML: servers with their rules and pipelines as a user could have written them, then what they
// refer to. It is the same for equal configs, leaves out what is the default, and shows no keys, passwords or tokens.
func Dump(c *Config) []byte {
	d := &dump{rulesOf: map[string]string{}}
	for _, s := range c.Servers {
		d.server(s, c.RuleSets[s.RuleSet])
	}
	for _, name := range slices.Sorted(maps.Keys(c.RuleSets)) {
		if _, shown := d.rulesOf[name]; !shown {
			d.ruleSet(c.RuleSets[name])
		}
	}
	for _, p := range c.Pipelines.All() {
		d.pipeline(p)
	}
	for _, name := range slices.Sorted(maps.Keys(c.TLSSets)) {
		d.tlsSet(c.TLSSets[name])
	}
	for _, u := range c.Upstreams.All() {
		d.upstream(u)
	}
	for _, cert := range c.Certificates.All() {
		d.certificate(cert)
	}
	return d.out.Bytes()
}

type dump struct {
	out     bytes.Buffer
	rulesOf map[string]string // by rule set: the server that shows it
}

func (d *dump) add(v any, comment string) {
	if d.out.Len() > 0 {
		d.out.WriteString("---\n")
	}
	text, err := document.Encode(v, redact)
	if err != nil {
		comment += "# " + strings.ReplaceAll(err.Error(), "\n", " ") + "\n"
	}
	d.out.Write(text)
	d.out.WriteString(comment)
}

// secretKeys are the keys whose text is not shown.
func secretKeys() []string {
	return []string{"authorization", "cookie", "apikey", "privatekey", "keybase64"}
}

func redact(key, value string) string {
	key = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
	secret := slices.ContainsFunc(secretKeys(), func(end string) bool { return strings.HasSuffix(key, end) })
	for _, end := range []string{"password", "secret", "token"} {
		secret = secret || strings.HasSuffix(key, end)
	}
	if !secret || value == "" || strings.HasPrefix(value, "$") {
		return value
	}
	return "<redacted>"
}

func (d *dump) server(s *HTTPServer, rs *RuleSet) {
	shown := *s
	shown.Meta = shownMeta(s.Meta, KindHTTPServer)
	shown.CACertBase64, shown.CertBase64, shown.KeyBase64, shown.Certs, shown.Keys = "", "", "", nil, nil
	if s.KeepAlive != nil && *s.KeepAlive {
		shown.KeepAlive = nil
	}
	if s.KeepAliveTimeout == DefaultKeepAliveTimeout {
		shown.KeepAliveTimeout = 0
	}
	if s.MaxConnections == DefaultMaxConnections {
		shown.MaxConnections = 0
	}
	if s.ClientMaxBody == DefaultClientMaxBody {
		shown.ClientMaxBody = 0
	}
	comment := ""
	if rs != nil {
		shown.RouterKind = rs.Kind
		first, before := d.rulesOf[rs.Name]
		if before {
			shown.Rules, shown.Fallback = nil, ""
			comment = "# rules and fallback are those of " + first + "\n"
		} else {
			d.rulesOf[rs.Name] = s.Name
			shown.Rules = rulesOf(rs)
			if rs.Fallback != nil {
				shown.Fallback = rs.Fallback.Backend
			}
		}
	}
	if shown.RouterKind == Ordered {
		shown.RouterKind = ""
	}
	d.add(&shown, comment)
}

// rulesOf are the rules of a set as an HTTPServer has them.
func rulesOf(rs *RuleSet) []*Rule {
	if rs.Kind != HostFirst {
		return rs.Rules
	}
	rules := make([]*Rule, 0, rs.Hosts.Len())
	for host, rule := range rs.Hosts.All() {
		if rule.Host != host {
			of := *rule
			of.Host, of.HostRegexp, of.Hosts = host, "", nil
			rule = &of
		}
		rules = append(rules, rule)
	}
	return rules
}

func (d *dump) ruleSet(rs *RuleSet) {
	shown := struct {
		Kind       string     `json:"kind"`
		Name       string     `json:"name"`
		RouterKind RouterKind `json:"routerKind,omitempty"`
		Rules      []*Rule    `json:"rules,omitempty"`
		Fallback   *Path      `json:"fallback,omitempty"`
	}{"RuleSet", rs.Name, rs.Kind, rulesOf(rs), rs.Fallback}
	d.add(&shown, "")
}

func shownMeta(m Meta, kind string) Meta {
	m.Kind = kind
	if m.Version == DefaultVersion {
		m.Version = ""
	}
	if len(m.Labels) == 1 && m.Labels[ownerLabel] == defaultOwner {
		m.Labels = nil
	}
	return m
}

func (d *dump) pipeline(p *Pipeline) {
	shown := *p
	shown.Meta = shownMeta(p.Meta, KindPipeline)
	d.add(&shown, "")
}

type shownEntry struct {
	Host         string   `json:"host"`
	Certificates []string `json:"certificates,omitempty"`
	ClientCAs    string   `json:"clientCAs,omitempty"`
}

func (d *dump) tlsSet(set *TLSSet) {
	shown := struct {
		Kind      string       `json:"kind"`
		Name      string       `json:"name"`
		Default   []string     `json:"default,omitempty"`
		ClientCAs string       `json:"clientCAs,omitempty"`
		Entries   []shownEntry `json:"entries,omitempty"`
	}{Kind: "TLSSet", Name: set.Name, Default: set.Default, ClientCAs: fingerprint(set.ClientCAs)}
	for host, e := range set.Entries.All() {
		shown.Entries = append(shown.Entries, shownEntry{host, e.Certificates, fingerprint(e.ClientCAs)})
	}
	d.add(&shown, "")
}

// fingerprint is the SHA-256 of the first certificate in PEM text, or of the text when it has none; "" for nothing.
func fingerprint(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			text = block.Bytes
			break
		}
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

type shownEndpoint struct {
	Address     string `json:"address"`
	Host        string `json:"host,omitempty"`
	Weight      int    `json:"weight,omitempty"`
	KeepHost    bool   `json:"keepHost,omitempty"`
	Terminating bool   `json:"terminating,omitempty"`
}

func (d *dump) upstream(u *Upstream) {
	shown := struct {
		Kind        string       `json:"kind"`
		Name        string       `json:"name"`
		LoadBalance *LoadBalance `json:"loadBalance,omitempty"`
		Reason      string       `json:"reason,omitempty"`
		Detail      string       `json:"detail,omitempty"`
		Endpoints   []any        `json:"endpoints,omitempty"`
		Guarded     bool         `json:"guarded,omitempty"` // addresses of host names are judged
		Refused     []string     `json:"refused,omitempty"`
	}{Kind: "Upstream", Name: u.Name, Reason: u.Reason, Detail: u.Detail}
	if u.LoadBalance != (LoadBalance{}) {
		shown.LoadBalance = &u.LoadBalance
	}
	if u.Guard != nil {
		shown.Guarded = true
		for _, at := range u.Guard.Refuse {
			shown.Refused = append(shown.Refused, at.String())
		}
	}
	for _, e := range u.Endpoints {
		if e == (Endpoint{Address: e.Address}) {
			shown.Endpoints = append(shown.Endpoints, e.Address)
		} else {
			shown.Endpoints = append(shown.Endpoints, shownEndpoint(e))
		}
	}
	d.add(&shown, "")
}

func (d *dump) certificate(c *Certificate) {
	shown := struct {
		Kind        string `json:"kind"`
		Name        string `json:"name"`
		Fingerprint string `json:"fingerprint,omitempty"`
		Broken      string `json:"broken,omitempty"`
	}{"Certificate", c.Name, fingerprint(c.Chain), c.Broken}
	d.add(&shown, "")
}
