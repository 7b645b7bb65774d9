package route

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
)

// hostIndex finds, for the kinds Ordered and RadixTree, the rules that have a host: those of its name, of the patterns that
// begin or end it, of the regular expressions it matches, and those for all hosts.
type hostIndex struct {
	exact    map[string]*group
	starts   *hostNode // patterns with a * at the end
	ends     *hostNode // patterns with a * at the start, backwards
	regexps  []hostRegexp
	anything *group
}

// group is the paths of all rules that have one host pattern.
type group struct {
	rules []int // their numbers
	first int32 // lowest order in it
	index *index
}

type hostRegexp struct {
	re    *regexp.Regexp
	group *group
}

// search runs s over every group that has the host, and reports whether there is one.
func (h *hostIndex) search(s *search) bool {
	known := h.anything.search(s)
	known = h.exact[s.r.Host].search(s) || known
	known = h.starts.search(s, false) || known
	known = h.ends.search(s, true) || known
	for i := range h.regexps {
		// A group that cannot come before the best so far need not be asked.
		if g := h.regexps[i].group; (s.best == nil || g.first < s.best.order) && h.regexps[i].re.MatchString(s.r.Host) {
			known = g.search(s) || known
		}
	}
	return known || s.best != nil
}

func (g *group) search(s *search) bool {
	if g == nil {
		return false
	}
	if s.best == nil || g.first < s.best.order {
		g.index.search(s)
	}
	return true
}

// hostNode is a node of a trie over the bytes of hosts.
type hostNode struct {
	next     string // the bytes that lead on
	children []*hostNode
	group    *group
}

// search walks along the host, from its end when backwards.
func (n *hostNode) search(s *search, backwards bool) bool {
	known := false
	host := s.r.Host
	for i := 0; n != nil; i++ {
		known = n.group.search(s) || known
		if i == len(host) {
			break
		}
		c := host[i]
		if backwards {
			c = host[len(host)-1-i]
		}
		at := strings.IndexByte(n.next, c)
		if at < 0 {
			break
		}
		n = n.children[at]
	}
	return known
}

// at returns the node for text, made if need be.
func (n *hostNode) at(text string, backwards bool) *hostNode {
	for i := range len(text) {
		c := text[i]
		if backwards {
			c = text[len(text)-1-i]
		}
		at := strings.IndexByte(n.next, c)
		if at < 0 {
			at = len(n.children)
			n.next += string([]byte{c})
			n.children = append(n.children, &hostNode{})
		}
		n = n.children[at]
	}
	return n
}

// compileRules compiles the kinds Ordered and RadixTree.
func (t *Table[T]) compileRules(prev *Table[T], attach func(*model.Rule, *model.Path) T) {
	c := compiler{radix: t.rules.Kind == model.RadixTree, now: map[string]*expression{}}
	if prev != nil {
		c.before = prev.regexps
	}
	byRule := make([][]*matcher, len(t.rules.Rules))
	b := groups{c: &c, byRule: byRule, all: map[string]*group{}}
	for i, rule := range t.rules.Rules {
		if rule == nil {
			continue
		}
		hosts := b.addRule(i, rule)
		paths := c.paths(rule, item("rules", i))
		for _, p := range paths {
			p.m.order = int32(len(t.entries))
			byRule[i] = append(byRule[i], p.m)
			t.entries = append(t.entries, newEntry(rule, hosts, p, attach))
		}
	}
	t.hosts = b.index()
	t.problems, t.regexps = c.problems, c.now
}

type compiledPath struct {
	path *model.Path
	m    *matcher
}

// paths compiles the paths of a rule and puts them in order of precedence. at is the field of the rule, where it does not say
// itself.
func (c *compiler) paths(rule *model.Rule, at string) []compiledPath {
	all := make([]compiledPath, 0, len(rule.Paths))
	for j, path := range rule.Paths {
		if path != nil {
			all = append(all, compiledPath{path, c.path(spot{rule, at, path, j})})
		}
	}
	if c.radix {
		specificFirst(all)
	}
	return all
}

// groups gathers the rules of each host pattern.
type groups struct {
	c       *compiler
	byRule  [][]*matcher
	all     map[string]*group // by pattern; a regexp with a / before it
	keys    []string          // in order
	regexps map[string]*regexp.Regexp
}

// addRule puts rule i into the group of each of its hosts and returns them as text.
func (b *groups) addRule(i int, rule *model.Rule) string {
	at := ruleOrigin(rule, i)
	var names []string
	for _, h := range ruleHosts(rule) {
		key, ok := b.key(h.Host, model.Origin{Key: at.Key, Field: join(at.Field, h.field)})
		if !ok {
			continue
		}
		names = append(names, strings.TrimPrefix(key, "/"))
		g := b.all[key]
		if g == nil {
			g = &group{}
			b.all[key] = g
			b.keys = append(b.keys, key)
		}
		if !slices.Contains(g.rules, i) {
			g.rules = append(g.rules, i)
		}
	}
	return strings.Join(names, ",")
}

type ruleHost struct {
	model.Host
	field string
}

// ruleHosts lists the hosts of a rule with their fields; a rule without any has the empty one.
func ruleHosts(rule *model.Rule) []ruleHost {
	var all []ruleHost
	if rule.Host != "" {
		all = append(all, ruleHost{model.Host{Value: rule.Host}, "host"})
	}
	if rule.HostRegexp != "" {
		all = append(all, ruleHost{model.Host{Value: rule.HostRegexp, IsRegexp: true}, "hostRegexp"})
	}
	for i, h := range rule.Hosts {
		all = append(all, ruleHost{h, "hosts[" + strconv.Itoa(i) + "].value"})
	}
	if len(all) == 0 {
		all = append(all, ruleHost{})
	}
	return all
}

// key is the canonical pattern of a host, or a problem.
func (b *groups) key(h model.Host, at model.Origin) (string, bool) {
	if !h.IsRegexp {
		key, ok := canon.RuleHost(h.Value)
		if !ok {
			b.c.add(at, "InvalidHost", "host "+quote(h.Value)+" is no host", "write a name, or a name with one * at its start or end, without port")
		}
		if key == "*" {
			key = ""
		}
		return key, ok
	}
	re, err := hostExpression(h.Value)
	if err != nil {
		b.c.add(at, "InvalidRegexp", "host "+err.Error(), "")
		return "", false
	}
	if b.regexps == nil {
		b.regexps = map[string]*regexp.Regexp{}
	}
	b.regexps["/"+h.Value] = re
	return "/" + h.Value, true
}

// index builds the index once the rules are compiled. Groups of the same rules share their paths.
func (b *groups) index() hostIndex {
	h := hostIndex{exact: map[string]*group{}}
	shared := map[string]*index{}
	for _, key := range b.keys {
		g := b.all[key]
		b.fill(g, shared)
		switch {
		case key == "":
			h.anything = g
		case key[0] == '/':
			h.regexps = append(h.regexps, hostRegexp{b.regexps[key], g})
		case key[0] == '*':
			if h.ends == nil {
				h.ends = &hostNode{}
			}
			h.ends.at(key[1:], true).group = g
		case key[len(key)-1] == '*':
			if h.starts == nil {
				h.starts = &hostNode{}
			}
			h.starts.at(key[:len(key)-1], false).group = g
		default:
			h.exact[key] = g
		}
	}
	return h
}

func (b *groups) fill(g *group, shared map[string]*index) {
	var name []byte
	g.first = math.MaxInt32
	for _, i := range g.rules {
		name = strconv.AppendInt(append(name, ' '), int64(i), 10)
		if ms := b.byRule[i]; len(ms) > 0 {
			g.first = min(g.first, ms[0].order)
		}
	}
	if g.index = shared[string(name)]; g.index != nil {
		return
	}
	var all []*matcher
	for _, i := range g.rules {
		all = append(all, b.byRule[i]...)
	}
	x := newIndex(all)
	g.index = &x
	shared[string(name)] = g.index
}
