package route

import (
	"strings"
	"testing"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/model"
)

func TestE3_Rewrite(t *testing.T) {
	for _, c := range []struct {
		kind model.RouterKind
		path model.Path
		in   string
		want string // "" means refused
	}{
		{model.Ordered, model.Path{Exact: "/a"}, "/a", "/a"},
		{model.Ordered, model.Path{Exact: "/a", RewriteTarget: "/b"}, "/a", "/b"},
		{model.Ordered, model.Path{Exact: "/a", RewriteTarget: "/é/../b c"}, "/a", "/b%20c"},
		{model.Ordered, model.Path{RewriteTarget: "/b"}, "/any", "/b"},
		{model.Ordered, model.Path{Prefix: "/foo", RewriteTarget: "/bar"}, "/foobaz/foo", "/barbaz/foo"},
		{model.Ordered, model.Path{Prefix: "/foo", RewriteTarget: "/"}, "/foo/x", "/x"},
		{model.Ordered, model.Path{Prefix: "/foo", RewriteTarget: "/"}, "/foo", "/"},
		{model.Ordered, model.Path{Prefix: "/foo/", RewriteTarget: "/"}, "/foo/x", "/x"},
		{model.Ordered, model.Path{Prefix: "/foo/", RewriteTarget: "/bar"}, "/foo/x", "/barx"},
		{model.Ordered, model.Path{Prefix: "/api", RewriteTarget: "/files/"}, "/api../secret", ""},
		{model.Ordered, model.Path{Prefix: "/api", RewriteTarget: "/files/."}, "/api./x", ""},
		{model.Ordered, model.Path{Prefix: "/a", RewriteTarget: "/b/."}, "/a/x", ""},
		{model.Ordered, model.Path{Prefix: "/a%2F", RewriteTarget: "/b"}, "/a%2Fc", "/bc"},
		{model.HostFirst, model.Path{ElementPrefix: "/foo", RewriteTarget: "/"}, "/foo/x", "/x"},
		{model.HostFirst, model.Path{ElementPrefix: "/foo/", RewriteTarget: "/"}, "/foo", "/"},
		{model.HostFirst, model.Path{ElementPrefix: "/foo", RewriteTarget: "/bar/"}, "/foo/x/", "/bar/x/"},
		{model.HostFirst, model.Path{ElementPrefix: "/foo", RewriteTarget: "/bar"}, "/foo", "/bar"},
		{model.HostFirst, model.Path{ElementPrefix: "/", RewriteTarget: "/bar"}, "/x", "/bar/x"},
		{model.HostFirst, model.Path{ElementPrefix: "/a", RewriteTarget: "/"}, "/a//evil.com", "//evil.com"},
		{model.Ordered, model.Path{Regexp: "^/user/([0-9]+)/(?P<rest>.*)$", RewriteTarget: "/$rest/${1}é$$"}, "/user/12/x", "/x/12%C3%A9$"},
		{model.Ordered, model.Path{Regexp: "^/user/([^/]+)", RewriteTarget: "/u-$1"}, "/user/a/b", "/u-a/b"},
		{model.Ordered, model.Path{Regexp: "a", RewriteTarget: "/b"}, "/aa", "//b/b"},
		{model.Ordered, model.Path{Regexp: "^/x(.*)", RewriteTarget: "$1"}, "/x/y", "/y"},
		{model.Ordered, model.Path{Regexp: "^/x(.*)", RewriteTarget: "$1"}, "/xy", ""},
		{model.Ordered, model.Path{Regexp: "^/x/(.*)", RewriteTarget: "/d/$1"}, "/x/..;/a", "/d/..;/a"},
		{model.Ordered, model.Path{Regexp: "^/x-(.*)", RewriteTarget: "/d/$1"}, "/x-../a", ""},
		{model.Ordered, model.Path{Regexp: "^/x%2F(.*)", RewriteTarget: "/d/$1"}, "/x%2F%2Fa", "/d/%2Fa"},
		{model.Ordered, model.Path{Regexp: "^/%2(.*)", RewriteTarget: "/%4$1"}, "/%2F1", "/%254F1"},
		{model.RadixTree, model.Path{Exact: "/u/{id}/{n:[0-9]+}/*", RewriteTarget: "/{n}/é/{id}/{EG_WILDCARD}"}, "/u/me/7/a/b", "/7/%C3%A9/me/a/b"},
		{model.RadixTree, model.Path{Exact: "/f/{a}.{b}", RewriteTarget: "/{b}/{a}"}, "/f/x.y.z", "/y.z/x"},
		{model.RadixTree, model.Path{Exact: "/u/{id}", RewriteTarget: "/fixed"}, "/u/me", "/fixed"},
		{model.RadixTree, model.Path{Exact: "/u/x{id}", RewriteTarget: "/{id}/a"}, "/u/x..", ""},
		{model.RadixTree, model.Path{Exact: "/u", RewriteTarget: "/v"}, "/u", "/v"},
		{model.RadixTree, model.Path{Prefix: "/u", RewriteTarget: "/v"}, "/ux", "/vx"},
		{model.RadixTree, model.Path{ElementPrefix: "/u", RewriteTarget: "/v"}, "/u/x", "/v/x"},
		{model.RadixTree, model.Path{Exact: "/static*", RewriteTarget: "/s{EG_WILDCARD}"}, "/static/x", "/s/x"},
	} {
		path := c.path
		rule := &model.Rule{Paths: []*model.Path{&path}}
		table := compiled(t, &model.RuleSet{Kind: c.kind, Rules: []*model.Rule{rule}, Hosts: hosts(map[string]*model.Rule{"": rule})})
		f := get(table, "GET h"+c.in)
		if f.Entry == nil {
			t.Errorf("%+v does not match %s", c.path, c.in)
			continue
		}
		got, ok := f.Entry.Rewrite(c.in)
		if ok != (c.want != "") || got != c.want {
			t.Errorf("%+v on %s: got %q %v, want %q", c.path, c.in, got, ok, c.want)
		}
	}
}

// FuzzRewrite sees that no rewritten path leaves the canonical form.
func FuzzRewrite(f *testing.F) {
	for _, seed := range [][3]string{{"/api", "/files/", "/api../x"}, {"^/a(.*)$", "/$1", "/a%2e%2e"}, {"/{x}/*", "/{EG_WILDCARD}/{x}", "/a/b/c"}, {"/a", "//", "/a//b"}, {`/(`, `$`, "/("}} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, pattern, target, raw string) {
		path, ok := canon.Path(raw)
		if !ok {
			return
		}
		for _, kind := range []model.RouterKind{model.Ordered, model.RadixTree} {
			rule := &model.Rule{Paths: []*model.Path{
				{Exact: pattern, RewriteTarget: target}, {ElementPrefix: pattern, RewriteTarget: target}, {Prefix: pattern, RewriteTarget: target}, {Regexp: pattern, RewriteTarget: target},
			}}
			table, _ := Compile(&model.RuleSet{Kind: kind, Rules: []*model.Rule{rule}}, nil, backend)
			found := get(table, "GET h"+path)
			if found.Entry == nil {
				continue
			}
			result, ok := found.Entry.Rewrite(path)
			if !ok {
				continue
			}
			if again, ok := canon.Path(result); !ok || again != result || strings.Contains(result, "?") {
				t.Errorf("pattern %q target %q: %q becomes %q", pattern, target, path, result)
			}
		}
	})
}
