package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/model"
)

func key(name string) model.Key { return model.Key{Kind: "Ingress", Namespace: "shop", Name: name} }

func problem(name, field, message string) model.Problem {
	return model.Problem{Origin: model.Origin{Key: key(name), Field: field}, Reason: "R", Message: message, Severity: model.Error}
}

func entries(r *Report) (all []*Entry) {
	for e := range r.All() {
		all = append(all, e)
	}
	return all
}

func TestUpdateKeepsWhatIsEqual(t *testing.T) {
	r := (*Report)(nil).Update([]*Entry{{Key: key("a")}, {Key: key("b"), Problems: []model.Problem{problem("b", "x", "m")}}}, nil)
	same := r.Update([]*Entry{{Key: key("b"), Problems: []model.Problem{problem("b", "x", "m")}}}, []model.Key{key("none")})
	if same != r {
		t.Error("a report that says the same is a new one")
	}
	less := r.Update(nil, []model.Key{key("b")})
	if less.Get(key("b")) != nil || r.Get(key("b")) == nil {
		t.Error("b should be gone from the new report only")
	}
	if less.Get(key("a")) != r.Get(key("a")) {
		t.Error("the entry of a is a new one")
	}
}

func TestOfGathersByObject(t *testing.T) {
	r := Of([]model.Problem{problem("b", "rules[10]", "m"), problem("a", "", "m"), problem("b", "rules[9]", "m"), problem("b", "rules[10]", "m")})
	want := []*Entry{
		{Key: key("a"), Problems: []model.Problem{problem("a", "", "m")}},
		{Key: key("b"), Problems: []model.Problem{problem("b", "rules[9]", "m"), problem("b", "rules[10]", "m")}},
	}
	if diff := cmp.Diff(want, entries(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMergeJoinsEntries(t *testing.T) {
	a := (*Report)(nil).Update([]*Entry{{
		Key: key("a"), Owners: []string{"one"}, Problems: []model.Problem{problem("a", "y", "m")},
		Conditions: []Condition{{Type: Accepted, Holds: true}, {Type: ResolvedRefs, Holds: true}},
	}}, nil)
	b := (*Report)(nil).Update([]*Entry{{
		Key: key("a"), Owners: []string{"another", "one"}, Problems: []model.Problem{problem("a", "x", "m"), problem("a", "y", "m")},
		Conditions: []Condition{{Type: ResolvedRefs, Reason: "No"}},
	}}, nil)
	want := []*Entry{{
		Key: key("a"), Owners: []string{"another", "one"}, Problems: []model.Problem{problem("a", "x", "m"), problem("a", "y", "m")},
		Conditions: []Condition{{Type: Accepted, Holds: true}, {Type: ResolvedRefs, Reason: "No"}},
	}}
	for _, merged := range []*Report{Merge(a, b), Merge(b, nil, a), Merge(nil, Merge(a, b))} {
		if diff := cmp.Diff(want, entries(merged)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestDiff(t *testing.T) {
	old := (*Report)(nil).Update([]*Entry{{Key: key("a")}, {Key: key("b")}, {Key: key("c")}}, nil)
	now := old.Update([]*Entry{{Key: key("b"), Owners: []string{"x"}}, {Key: key("d")}}, []model.Key{key("c")})
	got := map[string][2]bool{}
	for before, after := range Diff(old, now) {
		e := before
		if e == nil {
			e = after
		}
		got[e.Key.Name] = [2]bool{before != nil, after != nil}
	}
	if diff := cmp.Diff(map[string][2]bool{"b": {true, true}, "c": {true, false}, "d": {false, true}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range Diff(now, now) {
		t.Error("a difference between a report and itself")
	}
}

// TestBeyond leaves out what translation has said better.
func TestBeyond(t *testing.T) {
	key := model.Key{Kind: "HTTPServer", Name: "a"}
	problem := func(field string, severity model.Severity) model.Problem {
		return model.Problem{Origin: model.Origin{Key: key, Field: field}, Severity: severity}
	}
	report := Of([]model.Problem{problem("rules[1].paths[0].pathRegexp", model.Error), problem("tls[0].secretName", model.Warning), problem("rules", model.Error)})
	for _, c := range []struct {
		problem model.Problem
		beyond  bool
	}{
		{problem("rules[1].paths[0].pathRegexp", model.Error), false},
		{problem("rules[1].paths[0].pathRegexp", model.Warning), false},
		{problem("rules[1].paths[0]", model.Error), false},
		{problem("", model.Error), false},
		{problem("tls[0]", model.Warning), false},
		{problem("tls[0]", model.Error), true},
		{problem("rules[1].paths[0].pathRegexp.x", model.Error), true},
		{problem("rules[1].paths[0].path", model.Error), true},
		{problem("rules[10]", model.Error), true},
		{problem("port", model.Error), true},
		{model.Problem{Origin: model.Origin{Key: model.Key{Kind: "HTTPServer", Name: "b"}}}, true},
	} {
		if got := len(Beyond([]model.Problem{c.problem}, report)) == 1; got != c.beyond {
			t.Errorf("%v %s: %v", c.problem.Origin, c.problem.Severity, got)
		}
	}
}
