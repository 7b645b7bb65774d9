package translate

import (
	"strings"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

func serviceKey(path string) model.Key {
	namespace, name, _ := strings.Cut(path, "/")
	return model.Key{Kind: store.KindService, Namespace: namespace, Name: name}
}

// say brings the report up to date for some objects, and for the few that depend on everything: controllers and our own kinds.
func (t *Translator) say(keys map[model.Key]bool, lost map[model.Origin]model.Problem) {
	controllers := map[model.Key][]model.Problem{}
	for _, e := range t.ingress.Controllers() {
		controllers[e.Key] = append(controllers[e.Key], e.Problems...)
		keys[e.Key] = true
	}
	for _, key := range t.native.keys() {
		keys[key] = true
	}
	ports := map[model.Key][]model.Problem{}
	for at, p := range lost {
		ports[at.Key] = append(ports[at.Key], p)
		keys[at.Key] = true
	}
	var set []*status.Entry
	var remove []model.Key
	for key := range keys {
		e := t.entry(key, controllers[key], ports[key])
		if e != nil {
			set = append(set, e)
		} else {
			remove = append(remove, key)
		}
	}
	t.report = t.report.Update(set, remove)
}

// entry is what is to be said about an object; nil is nothing.
func (t *Translator) entry(key model.Key, more ...[]model.Problem) *status.Entry {
	if key.Kind == store.KindIngress {
		return t.ingress.Entry(key)
	}
	e := &status.Entry{Key: key}
	add := func(found []model.Problem) { e.Problems = append(e.Problems, found...) }
	add(t.view.Problems(key))
	switch key.Kind {
	case store.KindService:
		add(t.upstreams.Notes(key.Path()))
	case store.KindSecret:
		add(t.ingress.SecretProblems(key.Path()))
	case model.KindHTTPServer, model.KindPipeline:
		add(t.native.problemsOf(key))
	case model.KindIngressController:
		add(t.pinned(key))
	}
	for _, found := range more {
		add(found)
	}
	if len(e.Problems) == 0 {
		return nil
	}
	e.Problems = status.Tidy(e.Problems)
	return e
}

// pinned is what is wrong with an IngressController beside a setting that says where to listen.
func (t *Translator) pinned(key model.Key) []model.Problem {
	if t.options.Pinned == "" || t.view.Object(key) == nil {
		return nil
	}
	return []model.Problem{{
		Origin: model.Origin{Key: key}, Reason: "NotServed", Severity: model.Error,
		Message: t.options.Pinned + " is set and says where to listen, so this controller does not serve",
		Mend:    "remove that setting and start again, or remove this object",
	}}
}
