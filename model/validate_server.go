package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice.dev/sluice/canon"
)

// Validate returns what is wrong with a server, by field. It needs nothing but the server: whether pipelines and Services exist
// is for others to say.
func (s *HTTPServer) Validate() []Problem {
	c := &check{origin: s.Origin}
	c.meta(&s.Meta)
	c.server(s)
	c.certificates(s)
	if len(s.Rules) == 0 && s.Fallback == "" && s.RuleSet == "" {
		c.doubt("rules", "NoRules", "the server has no rules, so it answers 404 to everything", "give it rules")
	}
	hosts := map[string]at{}
	for i, rule := range s.Rules {
		c.rule(at("rules").index(i), s.RouterKind, rule, hosts)
	}
	return c.problems
}

// server checks how it listens.
func (c *check) server(s *HTTPServer) {
	if s.Port == 0 {
		c.wrong("port", "PortMissing", "the server has no port", "give it one, such as 8080")
	}
	if s.Address != "" && s.Address != "localhost" {
		if _, err := netip.ParseAddr(s.Address); err != nil {
			c.wrong("address", "InvalidAddress", fmt.Sprintf("%q is no IP address", clip(s.Address)), "leave it out to listen on all addresses; the port has a field of its own")
		}
	}
	if s.KeepAliveTimeout < 0 {
		c.wrong("keepAliveTimeout", "InvalidDuration", "a timeout is not negative", "write it as 60s")
	}
	c.maxBody("clientMaxBodySize", s.ClientMaxBody)
	if kinds := []string{string(Ordered), string(RadixTree), string(HostFirst)}; s.RouterKind != "" && !slices.Contains(kinds, string(s.RouterKind)) {
		c.wrong("routerKind", "InvalidRouterKind", fmt.Sprintf("router kind %q is not known", clip(string(s.RouterKind))), didYouMean(string(s.RouterKind), kinds))
	}
	c.ipFilter("ipFilter", s.IPFilter)
}

func (c *check) maxBody(field at, limit int64) {
	if limit < -1 {
		c.wrong(field, "InvalidLimit", fmt.Sprintf("%d is no limit", limit), "write bytes, 0 for the default, or -1 for no limit")
	}
}

// rule checks one rule. Hosts holds the hosts of the rules before, for kind Host.
func (c *check) rule(field at, kind RouterKind, rule *Rule, hosts map[string]at) {
	if rule == nil {
		c.wrong(field, "EmptyItem", "an empty rule", "remove it")
		return
	}
	c.ipFilter(field.dot("ipFilter"), rule.IPFilter)
	c.hosts(field, kind, rule, hosts)
	if len(rule.Paths) == 0 {
		c.doubt(field.dot("paths"), "NoPaths", "the rule has no paths, so it matches nothing", "give it paths; one with only a backend takes every path")
	}
	for i, path := range rule.Paths {
		c.path(field.dot("paths").index(i), kind, path)
	}
}

func (c *check) hosts(field at, kind RouterKind, rule *Rule, hosts map[string]at) {
	if rule.Host != "" {
		c.host(field.dot("host"), kind, rule.Host, hosts)
	}
	if rule.HostRegexp != "" {
		c.hostRegexp(field.dot("hostRegexp"), kind, rule.HostRegexp)
	}
	for i, host := range rule.Hosts {
		value := field.dot("hosts").index(i).dot("value")
		switch {
		case host.Value == "":
			c.wrong(value, "InvalidHost", "a host without value", "give it one, or remove it")
		case host.IsRegexp:
			c.hostRegexp(value, kind, host.Value)
		default:
			c.host(value, kind, host.Value, hosts)
		}
	}
	if kind == HostFirst && rule.Host == "" && rule.HostRegexp == "" && len(rule.Hosts) == 0 {
		c.once(field, "", hosts)
	}
}

func (c *check) hostRegexp(field at, kind RouterKind, text string) {
	if kind == HostFirst {
		c.wrong(field, "InvalidHost", "routerKind Host knows names and *. and a name, no regular expressions", "write those, or use routerKind Ordered")
		return
	}
	c.regexp(field, text)
}

func (c *check) host(field at, kind RouterKind, host string, hosts map[string]at) {
	canonical, ok := canon.RuleHost(host)
	if kind == HostFirst && canonical == "*" {
		canonical = ""
	}
	switch {
	case !ok && strings.Contains(host, "://"):
		c.wrong(field, "InvalidHost", fmt.Sprintf("%q is a URL, no host", clip(host)), "write the name only")
	case !ok && strings.Count(host, ":") == 1:
		c.wrong(field, "InvalidHost", fmt.Sprintf("%q has a port", clip(host)), "write the name only: the port of a request is not looked at")
	case !ok && strings.Contains(host, "*"):
		c.wrong(field, "InvalidHost", fmt.Sprintf("%q has a * in the middle, or more than one", clip(host)), "write one * at the start or the end, or use hostRegexp")
	case !ok:
		c.wrong(field, "InvalidHost", fmt.Sprintf("%q is no host name", clip(host)), "write it as www.example.com")
	case kind == HostFirst && strings.Contains(canonical, "*") && !strings.HasPrefix(canonical, "*."):
		c.wrong(field, "InvalidHost", fmt.Sprintf("%q: with routerKind Host, * stands for the whole first label", clip(host)), "write *.example.com, or use routerKind Ordered")
	case kind == HostFirst:
		c.once(field, canonical, hosts)
	}
}

// once notes a host that two rules of kind Host claim.
func (c *check) once(field at, host string, hosts map[string]at) {
	first, twice := hosts[host]
	if !twice {
		hosts[host] = field
		return
	}
	named := fmt.Sprintf("the host %q", clip(host))
	if host == "" {
		named = "all other hosts"
	}
	c.wrong(field, "DuplicateHost", fmt.Sprintf("%s already has %s, and with routerKind Host each host has one rule", first, named), "put the paths into one rule")
}

// pathPattern is one of the four ways to say which paths are meant.
type pathPattern struct {
	field at
	text  string
}

func (c *check) path(field at, kind RouterKind, p *Path) {
	if p == nil {
		c.wrong(field, "EmptyItem", "an empty path", "remove it; a path with only a backend takes every path")
		return
	}
	var set []pathPattern
	for _, pattern := range []pathPattern{{"path", p.Exact}, {"pathPrefix", p.Prefix}, {"pathElementPrefix", p.ElementPrefix}, {"pathRegexp", p.Regexp}} {
		if pattern.text != "" {
			set = append(set, pattern)
		}
	}
	if len(set) > 1 {
		c.wrong(field.dot(string(set[1].field)), "InvalidPath", fmt.Sprintf("%s is set beside %s", set[1].field, set[0].field), "set one of path, pathPrefix, pathElementPrefix and pathRegexp")
	}
	for _, pattern := range set {
		c.pattern(field.dot(string(pattern.field)), pattern, kind)
	}
	c.methods(field.dot("methods"), p.Methods)
	c.matches(field.dot("headers"), "header", p.Headers)
	c.matches(field.dot("queries"), "query", p.Queries)
	c.ipFilter(field.dot("ipFilter"), p.IPFilter)
	c.backend(field, p)
	c.setHeaders(field.dot("setHeaders"), p.SetHeaders)
	c.maxBody(field.dot("clientMaxBodySize"), p.ClientMaxBody)
	if p.RewriteTarget != "" && p.Regexp == "" && p.RewriteTarget[0] != '/' {
		c.wrong(field.dot("rewriteTarget"), "InvalidRewrite", fmt.Sprintf("%q does not begin with /", clip(p.RewriteTarget)), "write the whole new path, or the new prefix")
	}
}

func (c *check) pattern(field at, pattern pathPattern, kind RouterKind) {
	text := pattern.text
	switch {
	case pattern.field == "pathRegexp":
		c.regexp(field, text)
	case text[0] != '/':
		c.wrong(field, "InvalidPath", fmt.Sprintf("%q does not begin with /", clip(text)), fmt.Sprintf("write %q", "/"+clip(text)))
	case strings.ContainsAny(text, "?#"):
		c.wrong(field, "InvalidPath", fmt.Sprintf("%q has a query or a fragment, which no path has", clip(text)), "write the path only; queries has conditions on the query")
	case strings.Contains(text, "\x00"):
		c.wrong(field, "InvalidPath", "a NUL character", "remove it")
	case kind == RadixTree && pattern.field == "path" && strings.Count(text, "{") != strings.Count(text, "}"):
		c.wrong(field, "InvalidPath", fmt.Sprintf("the braces of %q do not pair", clip(text)), "write a parameter as {name} or {name:regexp}")
	}
}

func (c *check) methods(field at, methods []string) {
	known := []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}
	for i, method := range methods {
		switch {
		case !isToken(method):
			c.wrong(field.index(i), "InvalidMethod", fmt.Sprintf("%q is no method", clip(method)), "write it as GET")
		case slices.Contains(known, strings.ToUpper(method)) && method != strings.ToUpper(method):
			c.wrong(field.index(i), "InvalidMethod", fmt.Sprintf("methods are case-sensitive, and no client sends %q", method), "write "+strings.ToUpper(method))
		}
	}
}

func (c *check) matches(field at, what string, matches []Match) {
	for i, m := range matches {
		each := field.index(i)
		switch {
		case m.Key == "":
			c.wrong(each.dot("key"), "KeyMissing", "the condition names no "+what, "give it a key")
		case what == "header" && !isToken(m.Key):
			c.wrong(each.dot("key"), "InvalidHeader", fmt.Sprintf("%q is no header name", clip(m.Key)), "use letters, digits and -")
		}
		if len(m.Values) == 0 && m.Regexp == "" {
			c.wrong(each, "ValuesMissing", "the condition has neither values nor a regexp, so it is never true", "give it one of them")
		}
		if m.Regexp != "" {
			c.regexp(each.dot("regexp"), m.Regexp)
		}
	}
}

func (c *check) backend(field at, p *Path) {
	switch {
	case p.Backend != "" && p.BackendPool != nil:
		c.wrong(field.dot("backendPool"), "InvalidBackend", "backendPool is set beside backend", "remove one of them")
	case p.Backend == "" && p.BackendPool == nil:
		c.wrong(field, "BackendMissing", "the path has no backend", "name a Pipeline as backend, or give it a backendPool")
	}
	if p.BackendPool != nil {
		c.poolShape(field.dot("backendPool"), p.BackendPool)
		c.poolServers(field.dot("backendPool"), p.BackendPool)
	}
}

func (c *check) setHeaders(field at, set map[string]string) {
	for _, name := range sortedKeys(set) {
		switch value := set[name]; {
		case !isToken(name):
			c.wrong(field.key(name), "InvalidHeader", fmt.Sprintf("%q is no header name", clip(name)), "use letters, digits and -")
		case strings.ContainsAny(value, "\r\n\x00"):
			c.wrong(field.key(name), "InvalidHeader", "a header value has no line breaks", "write it in one line")
		}
	}
}
