package chaos

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseRequest(t *testing.T) {
	for target, want := range map[string]request{
		"GET /api/v1/pods":                                                 {"list", "pods", "", ""},
		"GET /api/v1/namespaces/a/pods?watch=true":                         {"watch", "pods", "a", ""},
		"GET /api/v1/namespaces/a/pods/x":                                  {"get", "pods", "a", "x"},
		"PATCH /api/v1/namespaces/a/pods/x/status":                         {"patch", "pods/status", "a", "x"},
		"GET /api/v1/namespaces":                                           {"list", "namespaces", "", ""},
		"GET /api/v1/namespaces/a":                                         {"get", "namespaces", "", "a"},
		"PUT /api/v1/namespaces/a/finalize":                                {"update", "namespaces/finalize", "", "a"},
		"DELETE /apis/networking.k8s.io/v1/namespaces/a/ingresses":         {"deletecollection", "ingresses", "a", ""},
		"PUT /apis/networking.k8s.io/v1/namespaces/a/ingresses/i/status":   {"update", "ingresses/status", "a", "i"},
		"POST /apis/networking.k8s.io/v1/namespaces/a/ingresses":           {"create", "ingresses", "a", ""},
		"GET /apis/networking.k8s.io/v1/ingressclasses?watch=1&resource=x": {"watch", "ingressclasses", "", ""},
		"GET /apis":    {verb: "get"},
		"GET /readyz":  {verb: "get"},
		"GET /api/v1":  {verb: "get"},
		"POST /apis/x": {verb: "post"},
	} {
		method, path, _ := strings.Cut(target, " ")
		if got := parse(httptest.NewRequest(method, path, nil)); got != want {
			t.Errorf("%s: %+v, want %+v", target, got, want)
		}
	}
}

func TestParseScript(t *testing.T) {
	for text, problem := range map[string]string{
		"rules: [{do: cut}]":                                 "",
		"rules: [{do: cutt}]":                                `rules[0]: do: "cutt" is not known`,
		"rules: [{do: cut}, {}]":                             `rules[1]: do: ""`,
		"rules: [{do: cut, verb: [get]}]":                    `unknown field`,
		"rules: [{do: answer}]":                              "code: 0 is no error status",
		"rules: [{do: cut, code: 500}]":                      "code and retryAfter belong to do: answer",
		"rules: [{do: delay}]":                               "time: delay needs one",
		"rules: [{do: cut, chance: 2}]":                      "chance: 2",
		"rules: [{do: cut, skip: -1}]":                       "skip and times",
		"rules: [{do: cut, events: [ADDED]}]":                "events: cut is done to requests",
		"rules: [{do: cutWatch, verbs: [get]}]":              "only a watch has events",
		"rules: [{do: cutWatch, verbs: [watch], until: 3s}]": "",
		"rules: [{do: hang, time: 1x}]":                      "unknown unit",
		"rules: [{do: answer, code: 429, retryAfter: 3}]":    "",
	} {
		_, err := Parse([]byte(text))
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", text, err, problem)
		}
	}
}

func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		script, err := Parse([]byte(`
rules:
- {name: second and third, verbs: [get], skip: 1, times: 2, do: cut}
- {name: window, verbs: [get], from: 10s, until: 20s, do: hang}
- {name: deleted, resources: [pods], events: [DELETED], do: endWatch}
- {name: marks, resources: [pods], events: [BOOKMARK], do: duplicateEvent}
- {name: never, verbs: [patch], do: cut}
`))
		if err != nil {
			t.Fatal(err)
		}
		p := newPlay(script)
		get, watch := request{verb: "get", resource: "x"}, request{verb: "watch", resource: "pods"}
		for i, step := range []struct {
			q     request
			event string
			wait  time.Duration
			want  string
		}{
			{get, "", 0, ""},
			{get, "", 0, "second and third"},
			{get, "", 0, "second and third"},
			{get, "", 0, ""},
			{get, "", 15 * time.Second, "window"},
			{get, "", 10 * time.Second, ""},
			{watch, "", 0, ""},
			{watch, "ADDED", 0, ""},
			{watch, "DELETED", 0, "deleted"},
			{watch, "BOOKMARK", 0, "marks"},
			{request{verb: "watch", resource: "nodes"}, "DELETED", 0, ""},
		} {
			<-time.After(step.wait) // of the test's own clock
			got := ""
			if r := p.next(step.q, step.event); r != nil {
				got = r.title()
			}
			if got != step.want {
				t.Errorf("step %d: %q, want %q", i, got, step.want)
			}
		}
		if open := p.open(); len(open) != 1 || open[0] != "never acted 0 times of 1" {
			t.Errorf("open: %v", open)
		}
	})
}
