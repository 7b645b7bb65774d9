package route

import "testing"

func TestExpressionPrefix(t *testing.T) {
	for text, want := range map[string]string{
		"^/api/v[0-9]": "/api/v", "^/ab*": "/a", "^(/a)": "", "(^/a/.*)": "/a/", "/api": "", "^/a|^/b": "", "(?i)^/api": "", "^": "", "^/é": "/%C3%A9", "^/a$": "/a", "^/a?b": "/", `^/a\|b`: "/a%7Cb", "^/a{2}": "/",
	} {
		e, err := pathExpression(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if e.prefix != want {
			t.Errorf("%s: prefix %q, want %q", text, e.prefix, want)
		}
	}
}

func TestLiteralStart(t *testing.T) {
	for text, want := range map[string]string{"^/api(": "/api", "^/api*(": "/ap", "/api(": "", "^/a|(": "", "^/api": "/api", "^(": "", "^": "", "": "", `^/a\`: "/a", "^*(": ""} {
		if got := literalStart(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestSizeIsAnUpperGuess(t *testing.T) {
	for _, text := range []string{"(a{50}){19}", "(.{1,900})", "((((a*)*)*)*)*", "(?:[a-z]{1,63}\\.){1,8}[a-z]{2,63}"} {
		if _, err := expressionOf(text); err != nil {
			t.Errorf("%s is an ordinary expression: %v", text, err)
		}
	}
	for _, text := range []string{"(.{1,900}){1}(.{1,900})(.{1,900})(.{1,900})(.{1,900})(.{1,900})", "((a|b){1,30}[cd]{1,30}){1,30}(((x{1,9}){1,9}){1,9}){1}(((y{1,9}){1,9}){1,9}(((z{1,9}){1,9}){1,9})(((w{1,9}){1,9}){1,9})(((w{1,9}){1,9}){1,9}))"} {
		if _, err := expressionOf(text); err == nil {
			t.Errorf("%s is a bomb", text)
		}
	}
}
