package canon

import (
	"strings"
	"testing"
)

type canonCase struct {
	in   string
	want string // "" means not ok
}

func run(t *testing.T, f func(string) (string, bool), cases []canonCase) {
	t.Helper()
	for _, c := range cases {
		got, ok := f(c.in)
		if ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%q: got %q %v, want %q", c.in, got, ok, c.want)
		}
		if !ok && got != "" {
			t.Errorf("%q: refused, yet %q", c.in, got)
		}
	}
}

func TestE1_Path(t *testing.T) {
	run(t, Path, []canonCase{
		{"/", "/"},
		{"/a/b", "/a/b"},
		{"/a/../b", "/b"},
		{"/a/%2e%2e/b", "/b"},
		{"/a/%2E./b", "/b"},
		{"/a/.%2e/b", "/b"},
		{"/a//b", "/a//b"},
		{"//", "//"},
		{"//evil.com/%2e%2e/a%2fb", "//a%2Fb"},
		{"/./", "/"},
		{"/.", "/"},
		{"/..", "/"},
		{"/../..", "/"},
		{"/../a", "/a"},
		{"/a/..", "/"},
		{"/a/.", "/a/"},
		{"/a/b/..", "/a/"},
		{"/a/b/../", "/a/"},
		{"/a//../b", "/a/b"},
		{"//..", "/"},
		{"/a/;x/..", "/a/"},
		{"/a/..;/b", "/a/..;/b"},
		{"/...", "/..."},
		{"/.a", "/.a"},
		{"/..a", "/..a"},
		{"/a/.../b", "/a/.../b"},
		{`/a\b`, "/a%5Cb"},
		{`/a\..\b`, "/a%5C..%5Cb"},
		{"/a%5cb", "/a%5Cb"},
		{"/a%2fb", "/a%2Fb"},
		{"/a%2f..%2fb", "/a%2F..%2Fb"},
		{"/%00", ""},
		{"/a%00b", ""},
		{"/%25xx", "/%25xx"},
		{"/%252e%252e/", "/%252e%252e/"},
		{"/%2525", "/%2525"},
		{"/%", ""},
		{"/%4", ""},
		{"/%zz", ""},
		{"/%%34", ""},
		{"/%c0%af", "/%C0%AF"},
		{"/%c3%A9", "/%C3%A9"},
		{"/%C3%A9", "/%C3%A9"},
		{"/%41%7e%2D%5f", "/A~-_"},
		{"/%21%24", "/%21%24"},
		{"/!$&'()*+,;=:@", "/!$&'()*+,;=:@"},
		{"/%0d%0a", "/%0D%0A"},
		{"/a b", ""},
		{"/a\tb", ""},
		{"/a\x00", ""},
		{"/a\x7f", ""},
		{"/caf\xc3\xa9", ""},
		{"/\xff", ""},
		{"/a?b", ""},
		{"/a#b", ""},
		{"", ""},
		{"a", ""},
		{"*", ""},
		{"http://x/", ""},
		{".", ""},
		{"/{a}|^`\"<>[]", "/%7Ba%7D%7C%5E%60%22%3C%3E%5B%5D"},
		{"/a/%2e%2e%2fb", "/a/..%2Fb"},
		{"/%2e", "/"},
		{"/a/%2e%2e", "/"},
		{"/a/%2E%2E/%2e%2e/b/", "/b/"},
	})
}

func TestRulePath(t *testing.T) {
	run(t, RulePath, []canonCase{
		{"/", "/"},
		{"/café", "/caf%C3%A9"},
		{"/caf%c3%a9", "/caf%C3%A9"},
		{"/a b", "/a%20b"},
		{"/a%20b", "/a%20b"},
		{"/a/../b", "/b"},
		{"/a/%2e", "/a/"},
		{"/100%", "/100%25"},
		{"/%zz", "/%25zz"},
		{"/a?b#c", "/a%3Fb%23c"},
		{"/a\nb", "/a%0Ab"},
		{"/\x00", ""},
		{"/%00", ""},
		{"a", ""},
		{"", ""},
		{"/\xff", "/%FF"},
		{"/%41", "/A"},
		{`/\`, "/%5C"},
		{"/{x}", "/%7Bx%7D"},
	})
	run(t, RulePrefix, []canonCase{
		{"/.", "/."}, {"/..", "/.."}, {"/a/.", "/a/."}, {"/a/../b/.", "/b/."}, {"/./", "/"}, {"/a/%2e", "/a/."}, {"/.well", "/.well"}, {"/é", "/%C3%A9"},
	})
}

func TestRuleText(t *testing.T) {
	run(t, RuleText, []canonCase{{"a/../é b", "a/../%C3%A9%20b"}, {".", "."}, {"%2e%2f", ".%2F"}, {"a\x00", ""}})
}

func TestE5_A10_Host(t *testing.T) {
	long := strings.Repeat("a.", 126) + "a" // 253
	run(t, Host, []canonCase{
		{"foo.com", "foo.com"},
		{"FOO.Com", "foo.com"},
		{"foo.com:80", "foo.com"},
		{"foo.com:", "foo.com"},
		{"foo.com.", "foo.com"},
		{"foo.com.:8080", "foo.com"},
		{"foo.com..", ""},
		{".", ""},
		{"..", ""},
		{".foo.com", ""},
		{"a..b", ""},
		{"", ""},
		{":80", ""},
		{"a,b", ""},
		{"a, b", ""},
		{"u@h", ""},
		{"u:p@h", ""},
		{"h/p", ""},
		{"h?q", ""},
		{"h#f", ""},
		{"h:port", ""},
		{"h:65535", "h"},
		{"h:65536", ""},
		{"h:-1", ""},
		{"h:80:80", ""},
		{"h:123456", ""},
		{"h: 80", ""},
		{"h:8 0", ""},
		{"a b", ""},
		{"a%41", ""},
		{"a\x00", ""},
		{"é.com", ""},
		{"*.foo.com", ""},
		{"a_b.c-d", "a_b.c-d"},
		{`a\b`, ""},
		{long, long},
		{long + ".", long},
		{long + "a", ""},
		{long + ":443", long},
		{"127.0.0.1:80", "127.0.0.1"},
		{"[::1]", "::1"},
		{"[::1]:80", "::1"},
		{"[0:0::1]", "::1"},
		{"[2001:DB8::1]", "2001:db8::1"},
		{"::1", ""},
		{"[::1", ""},
		{"[::1]x", ""},
		{"[::1]:x", ""},
		{"[1.2.3.4]", ""},
		{"[fe80::1%25eth0]", ""},
		{"[fe80::1%eth0]", ""},
		{"[]", ""},
		{"[v1.x]", ""},
		{"x[::1]", ""},
		{"xn--example-.com", ""},
		{"xn--example.com", ""},
		{"xn--.com", ""},
		{"xn--a.com", ""},
		{"a.xn--b-.c", ""},
		{"XN--EXAMPLE-.com", ""},
		{"xn--mnchen-3ya.de", "xn--mnchen-3ya.de"},
		{"XN--Mnchen-3ya.DE", "xn--mnchen-3ya.de"},
		{"xn--fiqs8s", "xn--fiqs8s"},
		{"xn--80ak6aa92e.com", "xn--80ak6aa92e.com"},
		{"xn--i-7iq.ws", "xn--i-7iq.ws"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"xn--Bcher-KVA.example", "xn--bcher-kva.example"},
		{"ab--cd.com", "ab--cd.com"},
		{"xn-a", "xn-a"},
	})
}

func TestRuleHost(t *testing.T) {
	run(t, RuleHost, []canonCase{
		{"*.Foo.com", "*.foo.com"},
		{"*.foo.com.", "*.foo.com"},
		{"*foo.com", "*foo.com"},
		{"www.*", "www.*"},
		{"www*", "www*"},
		{"*", "*"},
		{"a*b", ""},
		{"**", ""},
		{"*.*", ""},
		{"*.", ""},
		{"*..a", ""},
		{"a.com:80", ""},
		{"[::1]", "::1"},
		{"0::1", "::1"},
		{"Foo.com.", "foo.com"},
		{"a b", ""},
		{"a/b", ""},
	})
	if got, ok := RuleHost(""); got != "" || !ok {
		t.Errorf("the empty pattern: %q %v", got, ok)
	}
}

func TestCanonicalFormAllocatesNothing(t *testing.T) {
	for name, f := range map[string]func(){
		"path":   func() { Path("/api/v1/users/%C3%A9/.well-known/x.html") },
		"host":   func() { Host("www.example.com") },
		"port":   func() { Host("www.example.com.:8443") },
		"ipv6":   func() { Host("[2001:db8::1]:80") },
		"refuse": func() { Host("a,b"); Path("a") },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"/", "/a/../b", "/%2e%2e/%2E", `/a\b`, "/a//./..//b", "/%25%32%65", "/..;/a", "/.%2e/.", "//..//", "/%2", "/a/%2e%2e%2f"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		for name, form := range map[string]func(string) (string, bool){"Path": Path, "RulePath": RulePath} {
			got, ok := form(raw)
			if !ok {
				continue
			}
			checkCanonical(t, name, raw, got)
		}
		if got, ok := Path(raw); ok {
			if rule, ok := RulePath(raw); !ok || rule != got {
				t.Errorf("%q: request %q, rule %q %v", raw, got, rule, ok)
			}
		}
		if prefix, ok := RulePrefix(raw); ok {
			if again, ok := RulePrefix(prefix); !ok || again != prefix {
				t.Errorf("%q: prefix %q, again %q %v", raw, prefix, again, ok)
			}
		}
	})
}

func checkCanonical(t *testing.T, name, raw, got string) {
	t.Helper()
	if again, ok := Path(got); !ok || again != got {
		t.Errorf("%s %q: %q, again %q %v", name, raw, got, again, ok)
	}
	for segment := range strings.SplitSeq(got[1:], "/") {
		if segment == "." || segment == ".." {
			t.Errorf("%s %q: %q has a dot segment", name, raw, got)
		}
	}
	if strings.ContainsAny(got, "\\?# \x00") {
		t.Errorf("%s %q: %q has a character that a path has not", name, raw, got)
	}
	if got[0] != '/' {
		t.Errorf("%s %q: %q does not start with a slash", name, raw, got)
	}
}

func FuzzHost(f *testing.F) {
	for _, seed := range []string{"foo.com", "FOO.com.:80", "[::1]:8", "xn--mnchen-3ya.de", "xn--example-.com", "a..b", "*.a.b", "a.*", "xn--99999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if got, ok := Host(raw); ok {
			authority := got
			if strings.Contains(got, ":") {
				authority = "[" + got + "]"
			}
			if again, ok := Host(authority); !ok || again != got {
				t.Errorf("%q: %q, again %q %v", raw, got, again, ok)
			}
			if rule, ok := RuleHost(got); !ok || rule != got {
				t.Errorf("%q: %q, as a rule %q %v", raw, got, rule, ok)
			}
			if strings.ToLower(got) != got || len(got) > maxHost || strings.ContainsAny(got, "/@, []") {
				t.Errorf("%q: %q", raw, got)
			}
		}
		if rule, ok := RuleHost(raw); ok {
			if again, ok := RuleHost(rule); !ok || again != rule {
				t.Errorf("%q: rule %q, again %q %v", raw, rule, again, ok)
			}
		}
	})
}

func BenchmarkPath(b *testing.B) {
	for b.Loop() {
		Path("/api/v1/users/12345/orders?"[:26])
	}
}

func BenchmarkHost(b *testing.B) {
	for b.Loop() {
		Host("www.example.com:8443")
	}
}
