package model

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/canon"
)

// Validate returns what is wrong with a pipeline as far as that is said of objects: its name, and the servers and Services of its
// pools. Its flow, and the fields of each kind of filter, are checked by whoever knows the kinds.
func (p *Pipeline) Validate() []Problem {
	c := &check{origin: p.Origin}
	c.meta(&p.Meta)
	if len(p.Filters) == 0 {
		c.wrong("filters", "NoFilters", "the pipeline has no filters, so it answers nothing", "give it a filter of kind Proxy")
	}
	for i := range p.Filters {
		proxy := p.Filters[i].Proxy
		if proxy == nil {
			continue
		}
		for j, pool := range proxy.Pools {
			if pool != nil {
				c.poolServers(at("filters").index(i).dot("pools").index(j), pool)
			}
		}
	}
	return c.problems
}

// poolShape checks what the checker of filters checks in a Proxy.
func (c *check) poolShape(field at, p *Pool) {
	if len(p.Servers) == 0 && p.Service == "" {
		c.wrong(field, "InvalidPool", "a pool needs servers or a service", "give it servers: [{url: \"http://127.0.0.1:9000\"}], or service: namespace/name:port")
	}
	if p.Timeout < 0 {
		c.wrong(field.dot("timeout"), "InvalidDuration", "a timeout is not negative", "write it as 30s")
	}
	for i, code := range p.FailureCodes {
		if code < 100 || code > 599 {
			c.wrong(field.dot("failureCodes").index(i), "InvalidStatus", fmt.Sprintf("%d is no status", code), "statuses are 100 to 599")
		}
	}
}

func (c *check) poolServers(field at, p *Pool) {
	if p.Service != "" && len(p.Servers) > 0 {
		c.wrong(field.dot("servers"), "InvalidPool", "servers is set beside service", "remove one of them")
	}
	weighted, seen := 0, map[string]int{}
	for i := range p.Servers {
		s := &p.Servers[i]
		each := field.dot("servers").index(i)
		address, _, problem, mend := s.parse()
		first, twice := seen[address]
		switch {
		case problem != "":
			c.wrong(each.dot("url"), "InvalidURL", problem, mend)
		case twice:
			c.wrong(each.dot("url"), "DuplicateServer", fmt.Sprintf("servers[%d] has the address %s already", first, address), "remove one; weight says how much a server gets")
		default:
			seen[address] = i
		}
		if s.Weight < 0 || s.Weight > 100 {
			c.wrong(each.dot("weight"), "InvalidWeight", fmt.Sprintf("%d is no weight", s.Weight), "weights are 0 to 100")
		}
		if s.Weight > 0 {
			weighted++
		}
	}
	if weighted > 0 && weighted < len(p.Servers) {
		i := slices.IndexFunc(p.Servers, func(s Server) bool { return s.Weight <= 0 })
		c.wrong(field.dot("servers").index(i), "WeightMissing", "the server has no weight beside servers that have one, so it gets no requests", "give all servers of a pool a weight, or none")
	}
	c.loadBalance(field.dot("loadBalance"), p.LoadBalance)
}

// policies are the load-balance policies.
func policies() []string {
	return []string{"roundRobin", "weighted", "leastRequest", "random", "weightedRandom", "ipHash", "headerHash"}
}

func (c *check) loadBalance(field at, b *LoadBalance) {
	if b == nil {
		return
	}
	switch {
	case laterPolicy(b.Policy):
		c.wrong(field.dot("policy"), "NotInThisVersion", "not in this version: load-balance policy "+b.Policy, "use "+strings.Join(policies(), ", "))
	case b.Policy != "" && !slices.Contains(policies(), b.Policy):
		c.wrong(field.dot("policy"), "InvalidPolicy", fmt.Sprintf("load-balance policy %q is not known", clip(b.Policy)), didYouMean(b.Policy, policies()))
	case b.Policy == "headerHash" && b.HeaderHashKey == "":
		c.wrong(field.dot("headerHashKey"), "HeaderMissing", "headerHash needs to know which header", "set headerHashKey to its name")
	case b.Policy == "headerHash" && !isToken(b.HeaderHashKey):
		c.wrong(field.dot("headerHashKey"), "InvalidHeader", fmt.Sprintf("%q is no header name", clip(b.HeaderHashKey)), "use letters, digits and -")
	case b.Policy != "headerHash" && b.HeaderHashKey != "":
		c.doubt(field.dot("headerHashKey"), "Unused", "headerHashKey is used by policy headerHash only", "set the policy, or remove it")
	}
}

// Known reports whether the load balance can be had as it is written; Validate says what is wrong where it cannot.
func (b *LoadBalance) Known() bool {
	return b.Policy == "" || slices.Contains(policies(), b.Policy) && (b.Policy != "headerHash" || isToken(b.HeaderHashKey))
}

// Endpoint makes the endpoint that the server's URL names. It reports false for a URL that Validate refuses.
func (s *Server) Endpoint() (Endpoint, bool) {
	address, host, problem, _ := s.parse()
	if problem != "" {
		return Endpoint{}, false
	}
	return Endpoint{Address: address, Host: host, Weight: min(max(s.Weight, 0), 100), KeepHost: s.KeepHost}, true
}

// parse returns the address of the server, host:port, and the Host that goes with it, or what is wrong with its URL. The Host is
// "" where it is the address itself, which then is no name; port 80 is not part of it.
func (s *Server) parse() (address, host, problem, mend string) {
	const example = "write it as http://127.0.0.1:9000"
	u, err := url.Parse(s.URL)
	switch {
	case s.URL == "":
		return "", "", "the server has no url", example
	case err != nil && !strings.Contains(s.URL, "://"), err == nil && u.Host == "" && u.Scheme != "https":
		return "", "", fmt.Sprintf("%q is no URL", clip(s.URL)), example
	case err != nil:
		return "", "", fmt.Sprintf("%q is no URL: %s", clip(s.URL), clip(reasonOf(err))), example
	case u.Scheme == "https":
		return "", "", "not in this version: TLS to servers", "write http://, or leave the server out"
	case u.Scheme != "http":
		return "", "", fmt.Sprintf("the scheme %q is not known", clip(u.Scheme)), "use http"
	case u.User != nil:
		return "", "", "the URL has a user name, which is not sent", "remove it; setHeaders can set Authorization"
	case u.Path != "" && u.Path != "/":
		return "", "", fmt.Sprintf("not in this version: the path %q in a server's URL", clip(u.Path)), "remove it; rewriteTarget changes paths"
	case u.RawQuery != "" || u.Fragment != "":
		return "", "", "the URL has a query or a fragment", "remove it"
	}
	name, ok := canon.Host(u.Host)
	port := u.Port()
	if port == "" {
		port = "80"
	}
	if n, err := strconv.Atoi(port); !ok || err != nil || n < 1 {
		return "", "", fmt.Sprintf("%q is no host and port", clip(u.Host)), example
	}
	address = net.JoinHostPort(name, port)
	_, err = netip.ParseAddr(name)
	switch {
	case port == "80" && !strings.Contains(name, ":"):
		host = name
	case err != nil:
		host = address
	}
	return address, host, "", ""
}

// reasonOf is the reason of a url.Error, without the URL.
func reasonOf(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, `": `); i >= 0 {
		return text[i+3:]
	}
	return text
}
