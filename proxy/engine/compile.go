package engine

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/proxy/certs"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/filters"
	"sluice.dev/sluice/proxy/route"
)

// compiler makes Snapshots. It remembers what lies between two of them; its methods are called under Engine.mu.
type compiler struct {
	engine   *Engine
	registry *filters.Registry

	users    map[string]map[string]bool   // by upstream: the pipelines whose chain asked for it
	problems map[any][]model.Problem      // by what has them: *model.Rule, *model.Path, *model.RuleSet, chain name, …
	known    persist.Map[*model.Upstream] // that the config being compiled has; pools outlive theirs for a while
}

// compile makes the snapshot of c. Its cost is that of what changed since prev. The upstreams that c no longer has are left
// for after the swap.
func (k *compiler) compile(prev *Snapshot, c *model.Config) *Snapshot {
	next := &Snapshot{Generation: prev.Generation + 1, Config: c}
	k.known = c.Upstreams
	moved := k.upstreams(prev.Config.Upstreams, c.Upstreams)
	next.chains = k.chains(prev, c.Pipelines, moved)
	next.ruleSets = k.ruleSets(prev, c.RuleSets)
	next.tlsSets = k.tlsSets(prev, c)
	return next
}

// upstreams creates the new upstreams and changes those that changed, in place. It returns the names that came or went.
func (k *compiler) upstreams(old, now persist.Map[*model.Upstream]) (moved []string) {
	for name, pair := range persist.Diff(old, now) {
		if pair[1] != nil {
			k.blame(upstreamKey(name), upstreamProblems(pair[1], k.engine.pools.Set(pair[1])))
		} else {
			delete(k.problems, upstreamKey(name))
		}
		if pair[0] == nil || pair[1] == nil {
			moved = append(moved, name)
		}
	}
	return moved
}

type upstreamKey string

func upstreamProblems(u *model.Upstream, err error) []model.Problem {
	if err == nil {
		return nil
	}
	return []model.Problem{{Origin: u.Origin, Reason: "UpstreamInvalid", Message: err.Error(), Severity: model.Error}}
}

// chains builds the chains of pipelines that changed or that use an upstream that came or went.
func (k *compiler) chains(prev *Snapshot, pipelines persist.Map[*model.Pipeline], moved []string) persist.Map[*chain] {
	edit := prev.chains.Edit()
	for name, pair := range persist.Diff(prev.Config.Pipelines, pipelines) {
		k.replace(edit, name, pair[1])
	}
	for _, upstream := range moved {
		for _, name := range slices.Sorted(maps.Keys(k.users[upstream])) {
			if spec, ok := pipelines.Get(name); ok {
				k.replace(edit, name, spec)
			}
		}
	}
	return edit.Map()
}

func (k *compiler) replace(edit *persist.Editor[*chain], name string, spec *model.Pipeline) {
	if old, ok := edit.Get(name); ok {
		for _, upstream := range old.upstreams {
			delete(k.users[upstream], name)
			if len(k.users[upstream]) == 0 {
				delete(k.users, upstream)
			}
			if len(k.users) == 0 {
				k.users = map[string]map[string]bool{} // a map keeps the room that it once needed
			}
		}
	}
	if spec == nil {
		delete(k.problems, chainKey(name))
		edit.Delete(name)
		return
	}
	c := k.chain(spec)
	for _, upstream := range c.upstreams {
		if k.users[upstream] == nil {
			k.users[upstream] = map[string]bool{}
		}
		k.users[upstream][name] = true
	}
	k.blame(chainKey(name), c.problems)
	edit.Set(name, c)
}

type chainKey string

// chain builds the chain of a pipeline; one that cannot be built answers 500.
func (k *compiler) chain(spec *model.Pipeline) *chain {
	c := &chain{spec: spec}
	c.Chain, c.problems = filters.Build(spec, k.registry, filter.Env{
		Log: k.engine.settings.Log, Now: k.engine.settings.Now,
		Upstream: func(name string) filter.Upstream {
			c.upstreams = append(c.upstreams, name)
			if _, found := k.known.Get(name); !found {
				return nil
			}
			return k.engine.pools.Get(name)
		},
	})
	closeWhenUnused(c)
	return c
}

// ruleSets compiles the rule sets that changed; a host whose rule did not keeps its table.
func (k *compiler) ruleSets(prev *Snapshot, specs map[string]*model.RuleSet) map[string]*ruleSet {
	next := make(map[string]*ruleSet, len(specs))
	for name, spec := range specs {
		old := prev.ruleSets[name]
		if old != nil && old.spec == spec {
			next[name] = old
			continue
		}
		var table *route.Table[*target]
		var before *model.RuleSet
		if old != nil {
			table, before = old.table, old.spec
		}
		fresh := &ruleSet{spec: spec}
		var found []model.Problem
		fresh.table, found = route.Compile(spec, table, k.target)
		k.changedRules(before, spec)
		k.blame(ruleSetKey(name), found)
		next[name] = fresh
	}
	for name, old := range prev.ruleSets {
		if specs[name] == nil {
			k.changedRules(old.spec, nil)
			delete(k.problems, ruleSetKey(name))
		}
	}
	return next
}

type ruleSetKey string

// changedRules counts the origins of the rules that came and went, and forgets the problems of those that went.
func (k *compiler) changedRules(old, now *model.RuleSet) {
	if old == nil {
		old = &model.RuleSet{}
	}
	if now == nil {
		now = &model.RuleSet{}
	}
	var came, went []*model.Rule
	for _, pair := range persist.Diff(old.Hosts, now.Hosts) {
		went, came = append(went, pair[0]), append(came, pair[1])
	}
	was := make(map[*model.Rule]bool, len(old.Rules))
	for _, r := range old.Rules {
		was[r] = true
	}
	for _, r := range now.Rules {
		if !was[r] {
			came = append(came, r)
		}
		delete(was, r)
	}
	went = slices.AppendSeq(went, maps.Keys(was))
	if old.Fallback != now.Fallback {
		went, came = append(went, fallbackRule(old)), append(came, fallbackRule(now))
	}
	k.engine.origins.change(came, went)
	for _, r := range went {
		if r == nil {
			continue
		}
		delete(k.problems, r)
		for _, p := range r.Paths {
			delete(k.problems, p)
		}
	}
}

// fallbackRule is the rule that a fallback would be of; nil without one.
func fallbackRule(rs *model.RuleSet) *model.Rule {
	if rs.Fallback == nil {
		return nil
	}
	return &model.Rule{Paths: []*model.Path{rs.Fallback}}
}

// target makes what the engine keeps for a path. Whatever is to keep requests out and cannot be built closes the path.
func (k *compiler) target(rule *model.Rule, path *model.Path) *target {
	t := &target{maxBody: path.ClientMaxBody, pipeline: path.Backend, origin: originOf(rule, path)}
	var err error
	if rule != nil {
		if t.rule, err = filters.NewIPFilter(rule.IPFilter); err != nil {
			t.broken = true
			k.blame(rule, problemsOf(rule.Origin, "ipFilter", err))
		}
	}
	var found []model.Problem
	if t.path, err = filters.NewIPFilter(path.IPFilter); err != nil {
		found = append(found, problemsOf(path.Origin, "ipFilter", err)...)
	}
	if t.headers, err = filters.NewHeaders(path.SetHeaders); err != nil {
		found = append(found, problemsOf(path.Origin, "setHeaders", err)...)
	}
	t.broken = t.broken || len(found) > 0
	k.blame(path, found)
	return t
}

// originOf names the object and field that a path came from; the rule's where the path does not say.
func originOf(rule *model.Rule, path *model.Path) string {
	if rule == nil || path.Origin.Key != (model.Key{}) {
		return path.Origin.String()
	}
	return rule.Origin.String()
}

func (k *compiler) tlsSets(prev *Snapshot, c *model.Config) map[string]*certs.Set {
	next := make(map[string]*certs.Set, len(c.TLSSets))
	for name, spec := range c.TLSSets {
		var found []model.Problem
		next[name], found = k.engine.certs.Compile(spec, c.Certificates, prev.tlsSets[name])
		k.blame(tlsSetKey(name), found)
	}
	for name := range prev.tlsSets {
		if c.TLSSets[name] == nil {
			delete(k.problems, tlsSetKey(name))
		}
	}
	return next
}

type tlsSetKey string

// blame notes the problems of something, in the place of those it had.
func (k *compiler) blame(who any, found []model.Problem) {
	if len(found) == 0 {
		delete(k.problems, who)
		return
	}
	k.problems[who] = found
}

// all returns the problems of everything there is, ordered by origin.
func (k *compiler) all() []model.Problem {
	var list []model.Problem
	for _, found := range k.problems {
		list = append(list, found...)
	}
	slices.SortFunc(list, func(a, b model.Problem) int {
		return strings.Compare(a.Origin.String()+"\x00"+a.Message, b.Origin.String()+"\x00"+b.Message)
	})
	return list
}

// problemsOf makes problems of the joined errors of a part of an object.
func problemsOf(origin model.Origin, field string, err error) (list []model.Problem) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			list = append(list, problemsOf(origin, field, e)...)
		}
		return list
	}
	p := model.Problem{Origin: within(origin, field), Reason: "FieldInvalid", Message: err.Error(), Severity: model.Error}
	var wrong *filters.FieldError
	if errors.As(err, &wrong) {
		p.Origin, p.Message, p.Mend = within(p.Origin, wrong.Field), wrong.Message, wrong.Mend
	}
	return []model.Problem{p}
}

func within(origin model.Origin, field string) model.Origin {
	if origin.Field != "" && field != "" && field[0] != '[' {
		field = fmt.Sprintf("%s.%s", origin.Field, field)
	} else {
		field = origin.Field + field
	}
	origin.Field = field
	return origin
}

// closeWhenUnused closes the filters that hold something once neither a snapshot nor an exchange has the chain any more. The
// garbage collector is who knows; a count would cost every request.
func closeWhenUnused(c *chain) {
	for _, step := range c.Steps() {
		if _, ok := step.Filter.(filter.Closer); ok {
			runtime.AddCleanup(c, filters.Close, c.Chain)
			return
		}
	}
}
