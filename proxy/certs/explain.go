package certs

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/message"
)

// Explain says which certificate a client that asks for a server name gets, and why.
func (s *Set) Explain(name string) []model.Step {
	name = serverName(name)
	e, named := s.find(name)
	step := model.Step{Stage: "certificate", OK: e.policy.broken == ""}
	what := "no server name is sent"
	switch {
	case named:
		what = fmt.Sprintf("server name %s selects the TLS entry %s", name, e.spec.Host)
		step.Origin = e.spec.Origin.String()
	case name != "":
		what = fmt.Sprintf("no TLS entry is for %s", name)
	}
	step.Text = what + ": " + s.served(e)
	if named && !covers(e, name) {
		step.Text += "; it is not for " + name + ", and clients will refuse it"
		step.Mend = "give the TLS entry a certificate that is for " + name
	}
	if e.policy.cas != nil {
		step.Text += "; clients must present a certificate"
	}
	if !step.OK {
		step.Text = what + ": handshakes are refused, " + e.policy.broken
		step.Mend = "give one or more CA certificates in PEM"
	}
	return []model.Step{step}
}

// Judge is what Authorize says of a request for a host on a connection whose client asked for a server name, and has shown the
// certificate that the name's entry demands.
func (s *Set) Judge(name, host string) message.Reason {
	name = serverName(name)
	e, named := s.find(name)
	return s.Authorize(&message.TLS{ServerName: name, EntryID: e.id, Named: named}, host)
}

// served describes the certificates that an entry presents.
func (s *Set) served(e *entry) string {
	var all []string
	for _, slot := range e.slots {
		c := slot.current.Load()
		if c == nil {
			all = append(all, slot.name+" cannot be used")
			continue
		}
		text := fmt.Sprintf("certificate %s for %s until %s", slot.name, namesOf(c), c.Leaf.NotAfter.UTC().Format(time.DateOnly))
		if s.store.settings.Now().After(c.Leaf.NotAfter) {
			text += " (expired)"
		}
		all = append(all, text)
	}
	if !usable(e) {
		if e != s.fallback && usable(s.fallback) {
			all = append(all, "the default certificate stands in: "+s.served(s.fallback))
		} else {
			all = append(all, "the self-signed default certificate stands in")
		}
	}
	return strings.Join(all, "; ")
}

// namesOf lists what a certificate is for, the first few of many.
func namesOf(c *tls.Certificate) string {
	const most = 5
	names := slices.Clone(c.Leaf.DNSNames)
	for _, ip := range c.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	switch more := len(names) - most; {
	case len(names) == 0:
		return "no name"
	case more > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// covers reports whether the certificates that the entry has, if any, are for a name.
func covers(e *entry, name string) bool {
	for _, slot := range e.slots {
		if c := slot.current.Load(); c != nil && c.Leaf.VerifyHostname(name) != nil {
			return false
		}
	}
	return true
}

func usable(e *entry) bool {
	for _, slot := range e.slots {
		if slot.current.Load() != nil {
			return true
		}
	}
	return false
}
