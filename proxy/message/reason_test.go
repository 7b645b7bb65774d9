package message

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestReasonsAreDocumented: docs/responses.md has a row for each reason, with its status.
func TestReasonsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/responses.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 3 && strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			rows[strings.Trim(strings.TrimSpace(cells[1]), "`")] = strings.TrimSpace(cells[2])
		}
	}
	for _, r := range Reasons() {
		if r == OK {
			continue
		}
		switch status, found := rows[r.String()]; {
		case !found:
			t.Errorf("%s is not there", r)
		case status[0] >= '1' && status[0] <= '9' && status != fmt.Sprint(r.Status()):
			t.Errorf("%s: the page says %s, the status is %d", r, status, r.Status())
		}
		delete(rows, r.String())
	}
	for name := range rows {
		t.Errorf("the page has %s, which is no reason", name)
	}
}

func TestReasonNamed(t *testing.T) {
	for _, r := range Reasons() {
		if got := ReasonNamed(r.String()); got != r {
			t.Errorf("ReasonNamed(%q) is %s", r.String(), got)
		}
	}
	if got := ReasonNamed("nonsense"); got != FilterBroken {
		t.Errorf("nonsense is %s", got)
	}
}
