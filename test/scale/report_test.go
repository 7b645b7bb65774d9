package scale

import (
	"strings"
	"testing"
	"time"
)

func TestReport(t *testing.T) {
	r := &Report{}
	r.add(Row{Figure: "told", Value: "1"})
	r.atMost(Row{Figure: "soon", Method: "a clock"}, time.Second, 2*time.Second)
	if r.Missed() || r.Wrong() {
		t.Error("nothing was missed")
	}
	r.atMost(Row{Figure: "late"}, 3*time.Second, 2*time.Second)
	r.memory(Row{Figure: "large"}, 3e6, 2e6)
	if !r.Missed() || r.Wrong() {
		t.Error("a bar was missed, and no answer was wrong")
	}
	r.add(Row{Figure: "answers", Value: "1", Bar: "0", Must: true, Problem: []string{"wrong: x"}})
	if !r.Wrong() {
		t.Error("an answer was wrong")
	}
	var text strings.Builder
	r.Print(&text)
	for _, want := range []string{"PASS soon", "how: a clock", "MISS late", "MISS large", "3.0 MB", "wrong: x"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234567 * time.Nanosecond: "1.23ms", 12345 * time.Millisecond: "12.35s", 234567 * time.Millisecond: "3m55s", 0: "0s", 345678 * time.Nanosecond: "346µs",
	} {
		if got := short(d); got != want {
			t.Errorf("%d is written %s, want %s", d, got, want)
		}
	}
}

// TestAnswersAreReadAsBackendsSayThem: what the backend saw, and the rest of a WebSocket message.
func TestAnswersAreReadAsBackendsSayThem(t *testing.T) {
	var a answer
	rest := a.parse("10.200.1.7 host-0001.example.com /app-1/page message 5")
	if a.backend != address(7) || a.host != hostName(1) || a.path != "/app-1/page" || rest != "message 5" {
		t.Errorf("%+v, rest %q", a, rest)
	}
	var none answer
	if none.parse("<html>") != "" || none.backend.IsValid() {
		t.Errorf("%+v", none)
	}
}
