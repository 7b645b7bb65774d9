package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Meta is what every object that a user writes begins with.
type Meta struct {
	Kind      string            `json:"kind"`
	Name      string            `json:"name"`
	Version   string            `json:"version,omitempty"` // default easegress.megaease.com/v2
	Labels    map[string]string `json:"labels,omitempty"`
	CreatedAt string            `json:"createdAt,omitempty"` // RFC 3339
}

// Duration is a time.Duration written as text, such as 1.5s.
type Duration time.Duration

// String is the shortest text form: 1m, not 1m0s.
func (d Duration) String() string {
	text := time.Duration(d).String()
	for _, zero := range []string{"0s", "0m"} {
		if short, found := strings.CutSuffix(text, zero); found && short != "" && !strings.HasSuffix(short, "-") && strings.ContainsAny(short[len(short)-1:], "mh") {
			text = short
		}
	}
	return text
}

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the text form.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("a duration is text such as 500ms or 1m30s, not %s", raw)
	}
	if text == "" {
		*d = 0
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("%q is no duration; write it as 500ms or 1m30s", text)
	}
	*d = Duration(parsed)
	return nil
}
