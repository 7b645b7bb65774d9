package filters

import (
	"fmt"
	"slices"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
)

// node is one step of a flow with its spec and its jumps as indices of nodes.
type node struct {
	name  string        // alias or filter name
	index int           // in Pipeline.Filters; -1 for END
	jump  []jump        // as written
	after int           // where success leads
	kind  *filter.Kind  // nil for END and for an unknown kind
	spec  *model.Filter // nil for END
}

type jump struct {
	result filter.Result
	target int // node, or filter.End
}

// problems gathers what is wrong with one pipeline.
type problems struct {
	origin model.Origin
	list   []model.Problem
}

// add adds a problem with a field of the pipeline. A pipeline made of a part of another object has no fields that its user knows.
func (p *problems) add(reason, field, message, mend string) {
	origin := p.origin
	if origin.Field == "" {
		origin.Field = field
	} else {
		message = field + ": " + message
	}
	p.list = append(p.list, model.Problem{Origin: origin, Reason: reason, Message: message, Mend: mend, Severity: model.Error})
}

// resolve turns the flow of p into nodes and says what is wrong with it. Jumps that cannot be resolved are left out.
func (r *Registry) resolve(p *model.Pipeline, found *problems) []node {
	byName := make(map[string]int, len(p.Filters))
	for i := range p.Filters {
		name := p.Filters[i].Name
		switch _, twice := byName[name]; {
		case name == "":
			found.add("FilterName", fmt.Sprintf("filters[%d].name", i), "a filter needs a name", "")
		case name == model.End:
			found.add("FilterName", fmt.Sprintf("filters[%d].name", i), "END ends a flow and names no filter", "choose another name")
		case twice:
			found.add("FilterName", fmt.Sprintf("filters[%d].name", i), fmt.Sprintf("two filters are named %q", name), "rename one")
		default:
			byName[name] = i
		}
	}
	flow := p.Flow
	if len(flow) == 0 {
		for i := range p.Filters {
			flow = append(flow, model.FlowNode{Filter: p.Filters[i].Name})
		}
	}
	nodes := make([]node, 0, len(flow))
	for i := range flow {
		nodes = append(nodes, r.node(p, i, flow[i], byName, found))
	}
	checkAliases(flow, byName, found)
	for i := range flow {
		r.jumps(nodes, i, flow[i].JumpIf, found)
	}
	return nodes
}

func (r *Registry) node(p *model.Pipeline, i int, step model.FlowNode, byName map[string]int, found *problems) node {
	n := node{name: step.Filter, index: -1, after: i + 1}
	if step.Alias != "" {
		n.name = step.Alias
	}
	if step.Filter == model.End {
		n.after = filter.End
		if len(step.JumpIf) > 0 {
			found.add("Jump", fmt.Sprintf("flow[%d].jumpIf", i), "END ends the flow and has no result to jump on", "remove it")
		}
		return n
	}
	index, ok := byName[step.Filter]
	if !ok {
		field := fmt.Sprintf("flow[%d].filter", i)
		switch {
		case len(p.Flow) == 0: // a filter without a name, of which was told
		case step.Filter == "":
			found.add("FilterMissing", field, "a step names a filter or END", "")
		default:
			found.add("FilterMissing", field, fmt.Sprintf("no filter is named %q", step.Filter), suggest(step.Filter, keys(byName)))
		}
		return n
	}
	n.index = index
	n.spec = &p.Filters[index]
	n.kind = r.Kind(n.spec.Kind)
	return n
}

// checkAliases finds aliases that leave open which step a jump means.
func checkAliases(flow []model.FlowNode, byName map[string]int, found *problems) {
	seen := map[string]int{}
	for i := range flow {
		alias := flow[i].Alias
		if alias == "" {
			continue
		}
		field := fmt.Sprintf("flow[%d].alias", i)
		_, isFilter := byName[alias]
		first, twice := seen[alias]
		switch {
		case alias == model.End:
			found.add("Alias", field, "END ends a flow and is no alias", "choose another alias")
		case twice:
			found.add("Alias", field, fmt.Sprintf("flow[%d] has the alias %q too", first, alias), "choose another alias")
		case isFilter && alias != flow[i].Filter:
			found.add("Alias", field, fmt.Sprintf("%q is the name of another filter", alias), "choose another alias")
		}
		if !twice {
			seen[alias] = i
		}
	}
}

// jumps resolves the jumpIf of node i: to the nearest node behind it of that name, or to the end.
func (r *Registry) jumps(nodes []node, i int, jumpIf map[string]string, found *problems) {
	n := &nodes[i]
	if n.kind == nil {
		return
	}
	for _, result := range keys(jumpIf) {
		target := jumpIf[result]
		field := fmt.Sprintf("flow[%d].jumpIf", i)
		if result != "" {
			field += "." + result
		}
		number := filter.Next
		if result != "" {
			at := slices.Index(n.kind.Results, result)
			if at < 0 {
				found.add("JumpResult", field, fmt.Sprintf("%s has no result %q", n.kind.Name, result), suggest(result, n.kind.Results))
				continue
			}
			number = filter.Result(at + 1)
		}
		to, mend := destination(nodes, i, target)
		if mend != "" {
			found.add("JumpTarget", field, fmt.Sprintf("there is no step %q further on", target), mend)
			continue
		}
		n.jump = append(n.jump, jump{number, to})
	}
}

// destination finds the step named target behind step i; mend says what to do when there is none.
func destination(nodes []node, i int, target string) (to int, mend string) {
	if target == model.End {
		return filter.End, ""
	}
	var behind []string
	for j := i + 1; j < len(nodes); j++ {
		if nodes[j].name == target {
			if nodes[j].index < 0 {
				return filter.End, ""
			}
			return j, ""
		}
		behind = append(behind, nodes[j].name)
	}
	for j := range i + 1 {
		if nodes[j].name == target {
			return 0, "a flow jumps forward only: move that step behind this one, or jump to END"
		}
	}
	return 0, suggest(target, append(behind, model.End))
}
