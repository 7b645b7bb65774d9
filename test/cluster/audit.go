package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Audited is a request that the API server answered.
type Audited struct {
	User, Verb                                    string
	Group, Resource, Subresource, Namespace, Name string // of an object; empty otherwise
	URI                                           string
	Code                                          int
}

// Audited reads what Settings.Audit has had written so far.
func (c *Cluster) Audited() ([]Audited, error) {
	text, err := os.ReadFile(c.file("audit.log"))
	if err != nil {
		return nil, err
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may be half written
	var out []Audited
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var e struct {
			Verb       string
			RequestURI string
			User       struct{ Username string }
			ObjectRef  struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			Response   struct{ Code int } `json:"responseStatus"`
		}
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		o := e.ObjectRef
		out = append(out, Audited{e.User.Username, e.Verb, o.APIGroup, o.Resource, o.Subresource, o.Namespace, o.Name, e.RequestURI, e.Response.Code})
	}
}
