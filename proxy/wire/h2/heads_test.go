package h2

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/sluice/proxy/message"
)

// TestHeadsThatAreTooLarge: they are refused as over HTTP/1, and not by net/http, which would leave no line in the access log.
func TestHeadsThatAreTooLarge(t *testing.T) {
	repeat := func(n int, name, value string) (fields []string) {
		for i := range n {
			fields = append(fields, strings.ReplaceAll(name, "#", fmt.Sprint(i)), value)
		}
		return fields
	}
	for _, c := range []struct {
		name   string
		fields []string
		want   string
	}{
		{"31 KiB", repeat(2, "x-#", strings.Repeat("a", 31<<9-32)), "200"},
		{"33 KiB", repeat(3, "x-#", strings.Repeat("a", 11<<10)), "431 head_too_large"},
		{"45 KiB", repeat(3, "x-#", strings.Repeat("a", 15<<10)), "431 head_too_large"},
		{"many cookies", repeat(300, "cookie", "a=b"), "200"},
		{"too many cookies", repeat(400, "cookie", "a="+strings.Repeat("b", 90)), "431 head_too_large"},
	} {
		w := serve(t, func(x message.Stream) { text(x, 200, "ok") })
		r := w.raw()
		r.headers(1, true, pseudo("GET", "/", c.fields...)...)
		got := r.status(1)
		w.mu.Lock()
		for _, reason := range w.refusals {
			got += " " + reason
		}
		w.mu.Unlock()
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
