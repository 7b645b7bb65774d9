package route

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/model"
)

func explained(table *Table[string], request string) []string {
	r := parseRequest(request)
	var lines []string
	for _, s := range table.Explain(&r) {
		lines = append(lines, fmt.Sprintf("%s %v: %s [%s]", s.Stage, s.OK, s.Text, s.Origin))
		for _, l := range s.Lost {
			lines = append(lines, "  "+l)
		}
		if s.Mend != "" {
			lines = append(lines, "  mend: "+s.Mend)
		}
	}
	return lines
}

func TestExplain(t *testing.T) {
	at := func(field string) model.Origin {
		return model.Origin{Key: model.Key{Kind: "HTTPServer", Namespace: "shop", Name: "web"}, Field: field}
	}
	rule := &model.Rule{Origin: at("rules[0]"), Paths: []*model.Path{
		{Exact: "/cart", Methods: []string{"POST"}, Origin: at("paths[0]")},
		{ElementPrefix: "/cart/items", Origin: at("paths[1]")},
		{ElementPrefix: "/cart", Headers: []model.Match{{Key: "X-Env", Values: []string{"t"}}}, Origin: at("paths[2]")},
		{ElementPrefix: "/cart", Origin: at("paths[3]")},
		{ElementPrefix: "/", MatchAllQuery: true, Queries: []model.Match{{Key: "q", Values: []string{"1"}}, {Key: "r", Values: []string{"1"}}}, Origin: at("paths[4]")},
		{Exact: "/put", Methods: []string{"PUT"}, Origin: at("paths[5]")},
	}}
	rs := &model.RuleSet{Kind: model.HostFirst, Hosts: hosts(map[string]*model.Rule{
		"a.shop.test": rule, "*.shop.test": {Origin: at("rules[1]")}, "": {Origin: at("rules[2]")},
	})}
	table := compiled(t, rs)
	lessHosts := []string{`  the rule for "*.shop.test", HTTPServer shop/web rules[1]: less specific`, `  the rule for every host, HTTPServer shop/web rules[2]: less specific`}
	hostLine := `host true: host "a.shop.test" is answered by the rule for "a.shop.test" [HTTPServer shop/web rules[0]]`
	for _, c := range []struct {
		request string
		want    []string
	}{
		{"GET a.shop.test/cart/items/1", []string{
			`path true: GET "/cart/items/1" is answered by pathElementPrefix "/cart/items", HTTPServer shop/web paths[1] [HTTPServer shop/web paths[1]]`,
			`  pathElementPrefix "/cart", HTTPServer shop/web paths[2]: the header fields do not fit: X-Env`,
			`  pathElementPrefix "/cart", HTTPServer shop/web paths[3]: shorter`,
			`  pathElementPrefix "/", HTTPServer shop/web paths[4]: the query does not fit: all of q, r`,
		}},
		{"POST a.shop.test/cart?q=1&r=1", []string{
			`path true: POST "/cart" is answered by path "/cart", HTTPServer shop/web paths[0] [HTTPServer shop/web paths[0]]`,
			`  pathElementPrefix "/cart", HTTPServer shop/web paths[2]: the header fields do not fit: X-Env`,
			`  pathElementPrefix "/cart", HTTPServer shop/web paths[3]: less specific than an exact path`,
			`  pathElementPrefix "/", HTTPServer shop/web paths[4]: less specific than an exact path`,
		}},
		{"GET a.shop.test/cart", []string{
			`path true: GET "/cart" is answered by pathElementPrefix "/cart", HTTPServer shop/web paths[3] [HTTPServer shop/web paths[3]]`,
			`  path "/cart", HTTPServer shop/web paths[0]: method GET is not among POST`,
			`  pathElementPrefix "/cart", HTTPServer shop/web paths[2]: the header fields do not fit: X-Env`,
			`  pathElementPrefix "/", HTTPServer shop/web paths[4]: the query does not fit: all of q, r`,
		}},
		{"GET a.shop.test/none", []string{
			`path false: rules match "/none", but ask for other header fields or another query [HTTPServer shop/web rules[0]]`,
			`  pathElementPrefix "/", HTTPServer shop/web paths[4]: the query does not fit: all of q, r`,
			`  path "/cart", HTTPServer shop/web paths[0]: the path does not match`,
			`  pathElementPrefix "/cart/items", HTTPServer shop/web paths[1]: the path does not match`,
			`  pathElementPrefix "/cart", HTTPServer shop/web paths[2]: the path does not match`,
			`  pathElementPrefix "/cart", HTTPServer shop/web paths[3]: the path does not match`,
			`  path "/put", HTTPServer shop/web paths[5]: the path does not match`,
			`  mend: send what they ask for, or add a path without such conditions`,
		}},
	} {
		want := append(append([]string{hostLine}, lessHosts...), c.want...)
		if diff := cmp.Diff(want, explained(table, c.request)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.request, diff)
		}
	}
}

func TestExplainFailures(t *testing.T) {
	many := &model.Rule{}
	for i := range 25 {
		many.Paths = append(many.Paths, &model.Path{ElementPrefix: fmt.Sprintf("/x%d", i)})
	}
	many.Paths = append(many.Paths, &model.Path{Exact: "/put", Methods: []string{"PUT"}})
	rs := &model.RuleSet{Kind: model.HostFirst, Hosts: hosts(map[string]*model.Rule{"shop.test": many})}
	withFallback := *rs
	withFallback.Fallback = &model.Path{Backend: "f"}
	ordered := &model.RuleSet{Rules: []*model.Rule{
		{Host: "*.a", HostRegexp: "^b", Paths: []*model.Path{{Exact: "/x"}}}, {Host: "c", Hosts: []model.Host{{Value: "d"}, {Value: "e"}, {Value: "f"}}}, {Host: "x.a", Paths: []*model.Path{{}}},
	}}
	for _, c := range []struct {
		rs      *model.RuleSet
		request string
		want    []string // each in one of the lines, in order
	}{
		{rs, "GET shop.tst/", []string{`no rule has host "shop.tst"`, "mend: add a rule for host shop.tst, or ask for shop.test"}},
		{rs, "GET /", []string{"the request has no host", "mend: send a Host"}},
		{rs, "GET shop.test/y", []string{"path false: no path of the host's rules matches \"/y\"", `pathElementPrefix "/x9": the path does not match`, "and 16 more", `mend: add a path that matches it, such as "/y"`}},
		{rs, "GET shop.test/put", []string{"but not with method GET, only PUT", "method GET is not among PUT", "mend: add GET"}},
		{&withFallback, "GET other/", []string{"host true: no rule has host \"other\"; the fallback answers"}},
		{&withFallback, "GET shop.test/y", []string{"path true: GET \"/y\" is answered by the fallback", "the path does not match"}},
		{ordered, "GET x.a/x", []string{`host true: 2 of 3 rules have host "x.a"; the one chosen is for "*.a", regexp "^b"`, `rules[1]: is for "c", "d", "e", and 1 more`, "path true", "every path: less specific than an exact path"}},
		{ordered, "GET z/", []string{`host false: no rule has host "z"`, "rules[0]: is for", "rules[1]", "rules[2]", "mend: add a rule for host z"}},
	} {
		lines := explained(compiled(t, c.rs), c.request)
		rest := strings.Join(lines, "\n")
		for _, want := range c.want {
			_, behind, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s: no %q in order in\n%s", c.request, want, strings.Join(lines, "\n"))
				break
			}
			rest = behind
		}
	}
}
