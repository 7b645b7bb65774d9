package engine

import (
	"fmt"
	"testing"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/telemetry"
)

// TestWhatCameOfABodyIsCounted: a declared length is only a promise.
func TestWhatCameOfABodyIsCounted(t *testing.T) {
	b := newBackend(t, "v1")
	p := newPlayless(t)
	p.engine.Apply(withUpstream(one(model.KindProxy), b.address))
	for _, c := range []struct {
		path, length, body string
		want               int64
	}{
		{"/whole", "Content-Length: 5", "12345", 5},
		{"/chunked", "Transfer-Encoding: chunked", "5\r\n12345\r\n0\r\n\r\n", 5},
		{"/part", "Content-Length: 3000000", "12345", 5},
		{"/refused", "Content-Length: 100000000", "12345", 0},
	} {
		conn := dial(t, p.engine)
		fmt.Fprintf(conn, "PUT %s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n%s", c.path, c.length, c.body)
		conn.CloseWrite()
		r := p.records.find(c.path, func(r *telemetry.Record) bool { return r.URI == c.path })
		if r.Read != c.want {
			t.Errorf("%s: %d bytes of the request are logged, want %d (%s)", c.path, r.Read, c.want, r.Reason)
		}
	}
}
