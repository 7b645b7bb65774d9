package ingress

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// reading is what one Ingress says, by itself.
type reading struct {
	rules    []hostPaths
	hosts    []hostRules
	byHost   map[string]int // index of hosts; nil while they are few
	tls      []tlsItem
	standard *pathRef // the default backend
	redirect bool
	problems []model.Problem
}

// hostPaths is the paths of one rule.
type hostPaths struct {
	host  string // canonical; "" for all hosts
	field string
	paths []pathRef
}

// hostRules are the rules of one host, by their index.
type hostRules struct {
	host  string
	rules []int
}

// few is up to how many elements a list is searched from its start.
const few = 8

// pathRef is one path, or the default backend.
type pathRef struct {
	exact  bool
	path   string // canonical
	field  string
	target target
}

// tlsItem is one entry of spec.tls.
type tlsItem struct {
	field  string
	hosts  []string // canonical; none: those of the certificate
	none   bool     // the item lists hosts, and all are broken
	secret string   // path; "" for none
}

// problems gathers what is wrong with one object.
type problems struct {
	key  model.Key
	list []model.Problem
}

func (p *problems) wrong(field, reason, message, mend string) {
	p.list = append(p.list, model.Problem{Origin: model.Origin{Key: p.key, Field: field}, Reason: reason, Message: message, Mend: mend, Severity: model.Error})
}

func (p *problems) doubt(field, reason, message, mend string) {
	p.list = append(p.list, model.Problem{Origin: model.Origin{Key: p.key, Field: field}, Reason: reason, Message: message, Mend: mend, Severity: model.Warning})
}

func read(o *store.Object, in *store.Ingress) *reading {
	p := &problems{key: o.Key}
	r := &reading{redirect: p.annotations(in.Annotations)}
	if in.Default != nil {
		r.standard = &pathRef{field: "spec.defaultBackend", target: p.backend("spec.defaultBackend", in.Default)}
	}
	for i := range in.Rules {
		p.rule(r, i, &in.Rules[i])
	}
	for i := range in.TLS {
		p.tls(r, i, &in.TLS[i])
	}
	if len(in.Rules) == 0 && in.Default == nil && len(in.TLS) == 0 {
		p.doubt("spec", "Empty", "the Ingress has neither rules nor a defaultBackend", "add one of them")
	}
	r.group()
	r.problems = p.list
	return r
}

// group gathers the rules by host, so that an Ingress with many of them costs no more for each.
func (r *reading) group() {
	if len(r.rules) > few {
		r.byHost = make(map[string]int, len(r.rules))
	}
	for i := range r.rules {
		host := r.rules[i].host
		at := r.find(host)
		if at < 0 {
			at = len(r.hosts)
			r.hosts = append(r.hosts, hostRules{host: host})
			if r.byHost != nil {
				r.byHost[host] = at
			}
		}
		r.hosts[at].rules = append(r.hosts[at].rules, i)
	}
}

// find returns the index of a host, -1 when no rule has it.
func (r *reading) find(host string) int {
	if r.byHost == nil {
		return slices.IndexFunc(r.hosts, func(h hostRules) bool { return h.host == host })
	}
	if at, found := r.byHost[host]; found {
		return at
	}
	return -1
}

// rulesOf are the indices of the rules that have a host.
func (r *reading) rulesOf(host string) []int {
	if at := r.find(host); at >= 0 {
		return r.hosts[at].rules
	}
	return nil
}

func (p *problems) rule(r *reading, i int, rule *store.Rule) {
	field := indexed("spec.rules", i)
	host, ok := p.host(field+".host", rule.Host)
	if !ok {
		return
	}
	read := hostPaths{host: host, field: field}
	if rule.HasHTTP && len(rule.Paths) == 0 {
		p.doubt(field+".http.paths", "Empty", "the rule has no paths, so the default backend gets the whole host", "add a path, or leave http out")
	}
	for j := range rule.Paths {
		path := &rule.Paths[j]
		at := pathField(i, j)
		ref := pathRef{field: at, target: p.backend(at+".backend", &path.Backend)}
		if ref.exact, ref.path, ok = p.path(at, path); ok {
			read.paths = append(read.paths, ref)
		}
	}
	r.rules = append(r.rules, read)
}

// host returns the canonical form of a host.
func (p *problems) host(field, host string) (string, bool) {
	if host == "" {
		return "", true
	}
	canonical, ok := canon.RuleHost(host)
	name := strings.TrimPrefix(canonical, "*.")
	_, err := netip.ParseAddr(name)
	const mend = "write a DNS name such as shop.example.com, or *. before one"
	switch {
	case ok && err == nil:
		p.wrong(field, "InvalidHost", fmt.Sprintf("%q is an address, no name", clip(host)), "leave the host out; such requests go to rules without a host")
	case ok && !strings.Contains(name, "*"):
		return canonical, true
	case strings.Contains(host, "*"):
		p.wrong(field, "InvalidHost", fmt.Sprintf("%q: the * can only be the whole first label of a name", clip(host)), mend)
	case strings.Contains(host, "/"):
		p.wrong(field, "InvalidHost", fmt.Sprintf("%q is no host name", clip(host)), "write the name only, without scheme and path")
	case strings.Contains(host, ":"):
		p.wrong(field, "InvalidHost", fmt.Sprintf("%q has a port", clip(host)), "write the host without it; it holds for all ports")
	case strings.IndexFunc(host, func(c rune) bool { return c > 0x7f }) >= 0:
		p.wrong(field, "InvalidHost", fmt.Sprintf("%q is not written in ASCII", clip(host)), "write its punycode form, which begins with xn--")
	default:
		p.wrong(field, "InvalidHost", fmt.Sprintf("%q is no host name", clip(host)), mend)
	}
	return "", false
}

// path returns how a path is matched.
func (p *problems) path(field string, path *store.Path) (exact bool, canonical string, ok bool) {
	switch path.Type {
	case "Exact":
		exact = true
	case "Prefix", "ImplementationSpecific":
	case "":
		p.doubt(field+".pathType", "PathTypeMissing", "the path has no pathType; it is read as Prefix", "write Prefix or Exact")
	default:
		p.wrong(field+".pathType", "InvalidPathType", fmt.Sprintf("%q is no pathType; the path is not served", clip(path.Type)), didYouMean(path.Type, []string{"Exact", "Prefix", "ImplementationSpecific"}))
		return false, "", false
	}
	if path.Path == "" || path.Path == "/" {
		return exact, "/", true
	}
	if canonical, ok = canon.RulePath(path.Path); !ok {
		p.wrong(field+".path", "InvalidPath", fmt.Sprintf("no request has the path %q", clip(path.Path)), "begin it with / and leave control characters out")
	}
	return exact, canonical, ok
}

func (p *problems) backend(field string, b *store.Backend) target {
	ref := ServiceRef{Namespace: p.key.Namespace, Service: b.Service, PortName: b.PortName, Port: b.Port}
	switch {
	case b.HasService && b.Resource != nil:
		p.wrong(field, "TwoBackends", "the backend names a service and a resource; it answers 503", "remove one of them")
		return target{ref, "two backends"}
	case b.Resource != nil:
		what := b.Resource.Kind
		if b.Resource.Group != "" {
			what += "." + b.Resource.Group
		}
		p.wrong(field+".resource", "BackendUnsupported", fmt.Sprintf("a resource (%s %s) cannot be a backend; it answers 503", clip(what), clip(b.Resource.Name)), "name a service")
		return target{ref, "resource " + what + " " + b.Resource.Name}
	case !b.HasService:
		p.wrong(field, "NoBackend", "the backend names no service; it answers 503", "write service: {name: …, port: {number: …}}")
		return target{ref, "no backend"}
	case !store.ValidName(b.Service):
		p.wrong(field+".service.name", "InvalidName", fmt.Sprintf("%q is no name of a Service; the backend answers 503", clip(b.Service)), "name a Service of the Ingress's namespace")
		return target{ref, "service " + b.Service}
	case b.PortName != "" && b.Port != 0:
		p.doubt(field+".service.port", "TwoPorts", fmt.Sprintf("the port has a name and a number; the name %q counts", clip(b.PortName)), "remove one of them")
		ref.Port = 0
	}
	return target{ref: ref}
}

func (p *problems) tls(r *reading, i int, item *store.TLS) {
	read := tlsItem{field: indexed("spec.tls", i)}
	for j, host := range item.Hosts {
		at := indexed(read.field+".hosts", j)
		canonical, ok := p.host(at, host)
		if host == "" {
			p.wrong(at, "InvalidHost", "an empty host", "remove it")
		} else if ok {
			read.hosts = append(read.hosts, canonical)
		}
	}
	read.hosts = distinct(read.hosts)
	read.none = len(item.Hosts) > 0 && len(read.hosts) == 0
	switch {
	case item.Secret == "" && len(item.Hosts) == 0:
		p.doubt(read.field, "Empty", "the entry names neither hosts nor a Secret", "remove it")
		read.none = true
	case item.Secret != "" && !store.ValidName(item.Secret):
		p.wrong(read.field+".secretName", "InvalidName", fmt.Sprintf("%q is no name of a Secret; the default certificate is shown", clip(item.Secret)), "name a Secret of the Ingress's namespace")
	case item.Secret != "":
		read.secret = p.key.Namespace + "/" + item.Secret
	}
	r.tls = append(r.tls, read)
}

// refs yields every backend with the field that names it.
func (r *reading) refs(yield func(*pathRef) bool) {
	for i := range r.rules {
		for j := range r.rules[i].paths {
			if !yield(&r.rules[i].paths[j]) {
				return
			}
		}
	}
	if r.standard != nil {
		yield(r.standard)
	}
}

// backendField is the field of a backend.
func (p *pathRef) backendField() string {
	if p.field == "spec.defaultBackend" {
		return p.field
	}
	return p.field + ".backend"
}

// pathField is that of a path; most Ingresses have one, whose text is shared.
func pathField(i, j int) string {
	if i == 0 && j == 0 {
		return "spec.rules[0].http.paths[0]"
	}
	return indexed(indexed("spec.rules", i)+".http.paths", j)
}

func indexed(field string, i int) string {
	if i == 0 && field == "spec.rules" {
		return "spec.rules[0]"
	}
	return field + "[" + strconv.Itoa(i) + "]"
}

// didYouMean says which of the names was meant, or which there are.
func didYouMean(got string, names []string) string {
	if nearest := document.Nearest(got, names); nearest != "" {
		return fmt.Sprintf("did you mean %q?", nearest)
	}
	return "known are " + strings.Join(names, ", ")
}
