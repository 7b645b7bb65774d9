package model

import (
	"time"

	"sluice.dev/sluice/model/persist"
)

// Key names an object: its kind, its namespace ("" for kinds that have none) and its name.
type Key struct {
	Kind      string
	Namespace string
	Name      string
}

// Path is "namespace/name", or "name" without a namespace.
func (k Key) Path() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

func (k Key) String() string { return k.Kind + " " + k.Path() }

// Origin says which object, and which field of it, a part of the config came from.
type Origin struct {
	Key   Key
	Field string // JSON path, such as spec.rules[0].http.paths[1]; "" for the whole object
}

func (o Origin) String() string {
	if o.Field == "" {
		return o.Key.String()
	}
	return o.Key.String() + " " + o.Field
}

// Config is everything that one engine runs. Maps are persistent, so that two Configs share what did not change and the
// engine finds what did by comparing pointers: an element that changed is a new pointer, one that did not is the old one.
type Config struct {
	Servers      []*HTTPServer       // ordered by name
	RuleSets     map[string]*RuleSet // by name; HTTPServer.RuleSet refers to one
	TLSSets      map[string]*TLSSet  // by name; HTTPServer.TLSSet refers to one
	Pipelines    persist.Map[*Pipeline]
	Upstreams    persist.Map[*Upstream]
	Certificates persist.Map[*Certificate]
}

// RuleSet is the rules of one server, or of several that answer alike. It has Rules for the kinds Ordered and RadixTree,
// Hosts for the kind Host.
type RuleSet struct {
	Name     string
	Kind     RouterKind
	Rules    []*Rule            // Ordered: in file order
	Hosts    persist.Map[*Rule] // Host: by host pattern; "" holds the rule of all other hosts
	Fallback *Path              // what answers when nothing matched; nil: 404
}

// TLSSet is what the TLS servers that share it present to clients.
type TLSSet struct {
	Name    string
	Entries persist.Map[*TLSEntry] // by host pattern: a name, or *.name for one more label
	Default []string               // certificates for no or an unknown server name; empty: self-signed

	// ClientCAs, in PEM, is what clients of any host, named or not, must present a certificate of; that of an entry takes its place.
	// Where it verifies nothing, no client is let in.
	ClientCAs []byte
	Origin    Origin // of ClientCAs
}

// TLSEntry is the TLS side of one host.
type TLSEntry struct {
	Host         string
	Certificates []string // names in Config.Certificates, of different key types
	ClientCAs    []byte   // PEM; when set, clients must present a certificate that it verifies
	Origin       Origin
}

// Certificate is a chain and its key. Broken is why it cannot be used, "" when it can; then the proxy keeps the last good one
// of that name.
type Certificate struct {
	Name   string
	Chain  []byte // PEM, leaf first
	Key    []byte // PEM
	Broken string
	Origin Origin
}

// Severity ranks a Problem.
type Severity uint8

// A Warning leaves everything served; an Error takes the named part away.
const (
	Warning Severity = iota
	Error
)

func (s Severity) String() string { return [...]string{"warning", "error"}[s] }

// Problem is what is wrong with one field of one object, and how to mend it.
type Problem struct {
	Origin   Origin
	Reason   string // CamelCase, stable, as in Kubernetes conditions
	Message  string // what is wrong
	Mend     string // how to mend it; "" when the message says it
	Severity Severity
}

func (p Problem) String() string {
	s := p.Origin.Key.String() + " " + p.Origin.Field + ": " + p.Message
	if p.Mend != "" {
		s += "; " + p.Mend
	}
	return s
}

// Outcome is what became of a Config that was applied.
type Outcome struct {
	Generation uint64
	Took       time.Duration
	Problems   []Problem // what the engine could not do: a port in use, a filter that cannot be built
}
