package route

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
)

// TestE5_ManyHostsAreLikeOne gives a rule 150 hosts of every sort and asks for each as a client might write it.
func TestE5_ManyHostsAreLikeOne(t *testing.T) {
	rule := &model.Rule{Paths: []*model.Path{{Prefix: "/", Backend: "many"}}}
	var asked []string
	for i := range 50 {
		rule.Hosts = append(
			rule.Hosts,
			model.Host{Value: fmt.Sprintf("Exact-%d.Example.com", i)},
			model.Host{Value: fmt.Sprintf("*.Wild-%d.example.com.", i)},
			model.Host{Value: fmt.Sprintf(`^Reg-%d\.EXAMPLE\.com$`, i), IsRegexp: true},
		)
		asked = append(asked, fmt.Sprintf("eXACT-%d.example.com:8080", i), fmt.Sprintf("X.wild-%d.EXAMPLE.com.", i), fmt.Sprintf("REG-%d.example.com.:443", i))
	}
	table := compiled(t, &model.RuleSet{Rules: []*model.Rule{rule, {Paths: []*model.Path{{Backend: "rest"}}}}})
	for _, authority := range asked {
		host, ok := canon.Host(authority)
		if got := answer(get(table, "GET "+host+"/x")); !ok || got != "many" {
			t.Errorf("%s: %s", authority, got)
		}
	}
	lookups(t, table, []lookupCase{{"GET exact-50.example.com/", "", "rest"}, {"GET wild-1.example.com/", "", "rest"}, {"GET reg-1.example.com.evil/", "", "rest"}})
}

// TestE6_NoParameterIsOverlooked puts the one that counts behind ten thousand others.
func TestE6_NoParameterIsOverlooked(t *testing.T) {
	table := compiled(t, &model.RuleSet{Rules: []*model.Rule{{Paths: []*model.Path{{Queries: []model.Match{{Key: "k", Values: []string{"a;b"}}}, Backend: "found"}}}}})
	many := strings.Repeat("x=1&", 10_000)
	lookups(t, table, []lookupCase{
		{"GET h/?" + many + "k=a;b", "", "found"},
		{"GET h/?" + many + "k=a%3bb&k=c", "", "found"},
		{"GET h/?" + many + "k=a", "", "route_not_found"},
		{"GET h/?x;k=a;b", "", "route_not_found"},
		{"GET h/?%zz&k=a;b", "", "found"},
	})
}

// TestCase_A04_NoTwoRulesAreTakenForOne has hosts that some would join to the same internal name.
func TestCase_A04_NoTwoRulesAreTakenForOne(t *testing.T) {
	rules := map[string]*model.Rule{}
	for _, host := range []string{"staging.example.org", "*.staging.example.org", "a-b.c", "a.b-c"} {
		rules[host] = &model.Rule{Paths: []*model.Path{{ElementPrefix: "/uploads/image/", Backend: host}}}
	}
	table := compiled(t, &model.RuleSet{Kind: model.HostFirst, Hosts: hosts(rules)})
	lookups(t, table, []lookupCase{
		{"GET staging.example.org/uploads/image/x.jpg", "", "staging.example.org"},
		{"GET a.staging.example.org/uploads/image/x.jpg", "", "*.staging.example.org"},
		{"GET a.b.staging.example.org/uploads/image/x.jpg", "", "host_not_found"},
		{"GET a-b.c/uploads/image", "", "a-b.c"},
		{"GET a.b-c/uploads/image", "", "a.b-c"},
	})
}
