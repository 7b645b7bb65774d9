package engine

import (
	"io"
	"strings"
	"testing"

	"sluice.dev/sluice/proxy/message"
)

func TestPagesTakeTheFormThatTheClientLikesBest(t *testing.T) {
	for accept, want := range map[string]format{
		"": plain, "*/*": plain, "text/html": html, "application/json": jsonFormat, "image/png": plain,
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": html,
		"application/json, text/plain;q=0.5":                              jsonFormat,
		"text/html;q=0.1, application/json;q=0.9":                         jsonFormat,
		"text/html;q=0, */*":                                              plain,
		"TEXT/HTML ; level=1; q=0.7, application/json;q=0.3":              html,
		"application/problem+json":                                        jsonFormat,
		"text/html;q=x, application/json;q=0.2":                           jsonFormat,
		",,;;,":                                                           plain,
	} {
		if got := preferred(accept); got != want {
			t.Errorf("%q: %s, want %s", accept, mediaTypes[got], mediaTypes[want])
		}
	}
}

func TestF7_PagesCarryTheIDAndNothingElse(t *testing.T) {
	for form, want := range map[format]string{
		plain:      "502 Bad Gateway\nrequest id: abc\n",
		jsonFormat: `{"status":502,"error":"Bad Gateway","requestId":"abc"}` + "\n",
		html: `<!doctype html>` + "\n" + `<html lang="en"><head><meta charset="utf-8"><title>502 Bad Gateway</title></head>` + "\n" +
			`<body><h1>502 Bad Gateway</h1><p>Request id: <code>abc</code></p></body></html>` + "\n",
	} {
		var p page
		p.fill(form, 502, "abc")
		body, err := io.ReadAll(&p)
		if err != nil || string(body) != want {
			t.Errorf("%s: %q, %v", mediaTypes[form], body, err)
		}
	}
}

func TestPagesAreFilledAnew(t *testing.T) {
	var p page
	for _, id := range []string{"first-and-long", "second"} {
		r := &message.Response{Status: 404}
		p.dress(r, "GET", "", id)
		body, _ := io.ReadAll(r.Body)
		if want := "404 Not Found\nrequest id: " + id + "\n"; string(body) != want || r.Length != int64(len(want)) {
			t.Errorf("%q, length %d", body, r.Length)
		}
	}
}

func TestAHeadRequestGetsThePagesLength(t *testing.T) {
	var p page
	r := &message.Response{Status: 404}
	p.dress(r, "HEAD", "text/html", "id")
	if r.Body != nil || r.Length == 0 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
		t.Errorf("%+v", r)
	}
}

func TestAnIDCannotBreakThePage(t *testing.T) {
	var p page
	for _, form := range []format{plain, html, jsonFormat} {
		p.fill(form, 500, "<script>\"'\\\n&é")
		if strings.ContainsAny(strings.ReplaceAll(strings.ReplaceAll(string(p.text), "<code>", ""), "</code>", ""), "\\'&é") || strings.Contains(string(p.text), "<script") {
			t.Errorf("%s", p.text)
		}
	}
}
