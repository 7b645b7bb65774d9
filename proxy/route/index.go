package route

import (
	"slices"
	"strings"

	"sluice.dev/sluice/proxy/message"
)

// fewMatchers are asked one after another: that is faster than a trie, and takes less memory.
const fewMatchers = 8

// index finds the best of its matchers for a request. It is a trie over the bytes of what the patterns begin with, and a
// tree of segments for patterns with parameters, so that only matchers whose path fits are ever asked.
type index struct {
	few    []*matcher // instead of the rest, in order
	root   *node
	tree   *branch // nil without patterns
	lazy   bool    // some node has expressions
	broken []*matcher
}

// node is a node of the trie.
type node struct {
	label    string // what leads here
	next     string // first bytes of the labels of the children
	children []*node
	here     *matchers // nil when nothing begins with just this
}

// matchers are those whose pattern begins with the text of a node, by what must follow; each in order.
type matchers struct {
	exact   []*matcher // nothing
	prefix  []*matcher // anything
	element []*matcher // nothing, or a slash
	lazy    []*matcher // what an expression says
}

// search is one search. It lives on the stack.
type search struct {
	r    *Request
	best *matcher

	// Without a best, these say why.
	denied  *matcher // the path fits, the method not
	mixed   bool     // several such, of different methods
	missed  bool     // path and method fit, header or query not
	broken  *matcher // might have fitted
	collect bool     // gather methods instead of looking for the best
	methods []string
}

// newIndex makes an index of matchers in order.
func newIndex(all []*matcher) index {
	var x index
	for _, m := range all {
		switch {
		case m.broken:
			x.broken = append(x.broken, m)
		case len(all) <= fewMatchers:
			x.few = append(x.few, m)
		default:
			x.add(m)
		}
	}
	return x
}

func (x *index) add(m *matcher) {
	if m.terms.segments != nil {
		if x.tree == nil {
			x.tree = &branch{}
		}
		x.tree.add(m.terms.segments, m)
		return
	}
	if x.root == nil {
		x.root = &node{}
	}
	x.root.at(m.clean).add(m, m.kind)
	x.lazy = x.lazy || m.kind == regexpPath
}

// add adds a matcher whose pattern begins with just the text of n.
func (n *node) add(m *matcher, kind kind) {
	if n.here == nil {
		n.here = &matchers{}
	}
	list := &n.here.prefix
	switch kind {
	case exactPath:
		list = &n.here.exact
	case elementPath:
		list = &n.here.element
	case regexpPath:
		list = &n.here.lazy
	}
	*list = insert(*list, m)
}

// visit yields the matchers of the trie, those of longer texts first.
func (n *node) visit(yield func(*matcher)) {
	for _, child := range n.children {
		child.visit(yield)
	}
	if n.here != nil {
		for _, m := range n.here.prefix {
			yield(m)
		}
	}
}

func insert(list []*matcher, m *matcher) []*matcher {
	i, _ := slices.BinarySearchFunc(list, m, func(a, b *matcher) int { return int(a.order) - int(b.order) })
	return slices.Insert(list, i, m)
}

// at returns the node for text, made if need be.
func (n *node) at(text string) *node {
	for text != "" {
		i := strings.IndexByte(n.next, text[0])
		if i < 0 {
			child := &node{label: text}
			n.next += text[:1]
			n.children = append(n.children, child)
			return child
		}
		child := n.children[i]
		shared := sharedLen(child.label, text)
		if shared < len(child.label) {
			fork := &node{label: child.label[:shared], next: child.label[shared : shared+1], children: []*node{child}}
			child.label = child.label[shared:]
			n.children[i], child = fork, fork
		}
		n, text = child, text[shared:]
	}
	return n
}

func sharedLen(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func (x *index) search(s *search) {
	for _, m := range x.few {
		if s.best != nil && m.order >= s.best.order {
			return
		}
		if m.matchesPath(s.r.Path) && s.accepts(m) {
			s.best = m
			return
		}
	}
	if x.root != nil {
		x.root.walk(s, s.r.Path, false)
	}
	if x.tree != nil && strings.HasPrefix(s.r.Path, "/") {
		x.tree.search(s, s.r.Path[1:], true)
	}
	if x.lazy { // last, when most of them cannot be better than what there is
		x.root.walk(s, s.r.Path, true)
	}
	if s.best != nil || s.denied != nil {
		return
	}
	for _, m := range x.broken {
		if (s.broken == nil || m.order < s.broken.order) && m.allowsMethod(s.r.Method) && m.matchesPath(s.r.Path) {
			s.broken = m
		}
	}
}

// walk offers the matchers of each node along the path; with lazy only those with an expression, else the others.
func (n *node) walk(s *search, rest string, lazy bool) {
	for {
		if here := n.here; here != nil {
			if lazy {
				s.offer(here.lazy)
			} else {
				s.offer(here.prefix)
				if rest == "" {
					s.offer(here.exact)
					s.offer(here.element)
				} else if rest[0] == '/' {
					s.offer(here.element)
				}
			}
		}
		if rest == "" {
			return
		}
		i := strings.IndexByte(n.next, rest[0])
		if i < 0 {
			return
		}
		n = n.children[i]
		if !strings.HasPrefix(rest, n.label) {
			return
		}
		rest = rest[len(n.label):]
	}
}

// offer takes the first of the list that accepts the request, unless the best so far comes before it.
func (s *search) offer(list []*matcher) {
	for _, m := range list {
		if s.best != nil && m.order >= s.best.order {
			return
		}
		if (m.kind != regexpPath || m.matchesPath(s.r.Path)) && s.accepts(m) {
			s.best = m
			return
		}
	}
}

// accepts asks a matcher whose path fits for the rest, and notes why not.
func (s *search) accepts(m *matcher) bool {
	switch {
	case s.collect:
		s.methods = append(s.methods, m.terms.methods...)
		return false
	case m.plain:
		return true
	case !m.allowsMethod(s.r.Method):
		if s.denied == nil {
			s.denied = m
		} else if s.denied.terms.allow != m.terms.allow {
			s.mixed = true
		}
		return false
	case !m.terms.headers.hold(s.r, headerHolds) || !m.terms.queries.hold(s.r, queryHolds):
		s.missed = true
		return false
	}
	return true
}

func (c *conditions) hold(r *Request, holds func(*Request, *condition) bool) bool {
	for i := range c.list {
		if holds(r, &c.list[i]) != c.all {
			return !c.all
		}
	}
	return c.all || len(c.list) == 0
}

// headerHolds takes the condition to hold when any field of that name fits; a missing one counts as empty.
func headerHolds(r *Request, c *condition) bool {
	id := message.Lookup(c.key)
	if id == message.Host {
		return c.holds(r.Host)
	}
	found := false
	for i := 0; r.Header != nil && i < r.Header.Len(); i++ {
		f := r.Header.At(i)
		if f.ID != id || id == message.Other && !message.EqualFold(f.Name, c.key) {
			continue
		}
		if found = true; c.holds(f.Value) {
			return true
		}
	}
	return !found && c.holds("")
}
