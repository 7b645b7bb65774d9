package model

import (
	"encoding/json"
	"fmt"
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

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

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
