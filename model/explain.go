package model

// Step is one step of an explanation: what was asked, what was found, and, where the request fails there, what to mend.
type Step struct {
	Stage  string   `json:"stage"` // listener, certificate, host, path, class, filters, service, port, endpoints, answer
	OK     bool     `json:"ok"`
	Text   string   `json:"text"`
	Origin string   `json:"origin,omitempty"` // object and field
	Lost   []string `json:"lost,omitempty"`   // rules that were considered and lost, and why
	Mend   string   `json:"mend,omitempty"`
}
