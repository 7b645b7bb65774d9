package filters

import (
	"fmt"
	"log/slog"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

// Check returns everything that is wrong with the filters and the flow of a pipeline. It needs no running engine.
func (r *Registry) Check(p *model.Pipeline) []model.Problem {
	found := &problems{origin: originOf(p)}
	r.resolve(p, found)
	for i := range p.Filters {
		r.decode(i, &p.Filters[i], found)
	}
	return found.list
}

// Build makes the chain of a pipeline. Where anything is wrong with it, the chain answers every request with 500, so that a
// filter that was to keep requests out lets none in, and the problems say what. Close what the steps hold with Close.
func Build(p *model.Pipeline, r *Registry, env filter.Env) (*filter.Chain, []model.Problem) {
	found := &problems{origin: originOf(p)}
	nodes := r.resolve(p, found)
	specs := make([]any, len(p.Filters))
	for i := range p.Filters {
		specs[i] = r.decode(i, &p.Filters[i], found)
	}
	if len(found.list) > 0 {
		return Broken(), found.list
	}
	built := make([]filter.Filter, len(p.Filters))
	for i := range p.Filters {
		env.Name = p.Filters[i].Name
		if env.Log == nil {
			env.Log = slog.New(slog.DiscardHandler)
		}
		f, err := r.Kind(p.Filters[i].Kind).New(specs[i], env)
		if err != nil {
			found.fields(i, "FilterBroken", err)
			continue
		}
		built[i] = f
	}
	if len(found.list) > 0 {
		closeAll(built)
		return Broken(), found.list
	}
	return filter.NewChain(steps(nodes, built)), nil
}

// Close closes the filters of a chain that hold something. Call it when no exchange uses the chain any more.
func Close(c *filter.Chain) {
	closed := map[filter.Filter]bool{}
	for _, step := range c.Steps() {
		if closer, ok := step.Filter.(filter.Closer); ok && !closed[closer] { // a filter may be several steps
			closed[closer] = true
			closer.Close()
		}
	}
}

// Broken returns the chain that answers 500.
func Broken() *filter.Chain {
	return filter.NewChain([]filter.Step{{Name: "broken", Filter: broken{}}})
}

type broken struct{}

func (broken) Handle(x *filter.Exchange) filter.Result {
	return filter.Reject(x, message.FilterBroken, 1)
}

func closeAll(built []filter.Filter) {
	for _, f := range built {
		if closer, ok := f.(filter.Closer); ok {
			closer.Close()
		}
	}
}

// steps makes the steps of a chain: END is no step but where jumps lead, so indices move up behind it.
func steps(nodes []node, built []filter.Filter) []filter.Step {
	place := make([]int, len(nodes)+1) // by node: index of its step, or End
	count := 0
	for i := range nodes {
		place[i] = filter.End
		if nodes[i].index >= 0 {
			place[i] = count
			count++
		}
	}
	place[len(nodes)] = filter.End
	to := func(target int) int {
		if target == filter.End {
			return filter.End
		}
		return place[target]
	}
	all := make([]filter.Step, 0, count)
	for i := range nodes {
		n := &nodes[i]
		if n.index < 0 {
			continue
		}
		step := filter.Step{Name: n.name, Filter: built[n.index], Jump: make([]int, 1+len(n.kind.Results))}
		for result := range step.Jump {
			step.Jump[result] = filter.End
		}
		step.Jump[filter.Next] = to(n.after)
		for _, j := range n.jump {
			step.Jump[j.result] = to(j.target)
		}
		all = append(all, step)
	}
	return all
}

// decode decodes filter i; nil when something is wrong with it, which is then among the problems.
func (r *Registry) decode(i int, f *model.Filter, found *problems) any {
	kind := r.Kind(f.Kind)
	if kind == nil {
		message := fmt.Sprintf("no filter kind is named %q", f.Kind)
		if f.Kind == "" {
			message = "a filter needs a kind"
		}
		found.add("FilterKind", fmt.Sprintf("filters[%d].kind", i), message, suggest(f.Kind, r.Names()))
		return nil
	}
	if f.Kind == model.KindProxy {
		if errs := checkProxy(f.Proxy); len(errs) > 0 {
			for _, err := range errs {
				found.fields(i, "FilterSpec", err)
			}
			return nil
		}
		return f.Proxy
	}
	spec, err := kind.Decode(f.Raw)
	if err != nil {
		found.fields(i, "FilterSpec", err)
		return nil
	}
	return spec
}

// fields adds the field errors of filter i.
func (p *problems) fields(i int, reason string, err error) {
	for _, e := range fieldErrors(err) {
		p.add(reason, join(fmt.Sprintf("filters[%d]", i), e.Field), e.Message, e.Mend)
	}
}

// originOf is the object that a pipeline came from; one that says none is its own.
func originOf(p *model.Pipeline) model.Origin {
	if p.Origin.Key != (model.Key{}) {
		return p.Origin
	}
	return model.Origin{Key: model.Key{Kind: "Pipeline", Name: p.Name}}
}
