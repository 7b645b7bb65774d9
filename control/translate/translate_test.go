package translate_test

import (
	"testing"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
)

// TestUpdateAfterPanic loses one update half way; the next one must not build on what is left of it.
func TestUpdateAfterPanic(t *testing.T) {
	panics := false
	o := options()
	o.CheckPipeline = func(*model.Pipeline) []model.Problem {
		if panics {
			panic("check")
		}
		return nil
	}
	translator := translate.New(o)
	s := store.New("files")
	s.ReplaceFile("files", "a", decoded(t, textOf(1, "/a")))
	view, keys := s.Take()
	translator.Update(view, keys)

	panics = true
	s.ReplaceFile("files", "a", decoded(t, textOf(1, "/b")+"kind: Pipeline\nname: p\nfilters: []\n"))
	view, keys = s.Take()
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		translator.Update(view, keys)
	}()

	panics = false
	s.ReplaceFile("files", "b", decoded(t, textOf(2, "/c")))
	view, keys = s.Take()
	config, _ := translator.Update(view, keys)
	want, _ := translate.Translate(view, o)
	if diff := compareConfigs(want, config); diff != "" {
		t.Error(diff)
	}
}

func TestNothingChangedIsTheSameConfig(t *testing.T) {
	translator := translate.New(options())
	view := viewOf(t, textOf(1, "/a"))
	config, report := translator.Update(view, nil)
	again, reportAgain := translator.Update(view, []model.Key{})
	if again != config || reportAgain != report {
		t.Error("config or report is a new pointer")
	}
	// A class that nobody names makes everything anew, and equal.
	more := store.New("files")
	more.Replace("files", append(decoded(t, textOf(1, "/a")), store.NewObject(store.KindIngressClass, "", "x", &store.IngressClass{Controller: "x"})))
	classes, _ := more.Take()
	rebuilt, _ := translator.Update(classes, nil)
	if diff := newPointers(config, rebuilt, true); diff != "" {
		t.Error(diff)
	}
}

// TestEndpointsMakeOneUpstream moves an endpoint: one upstream is new and nothing else.
func TestEndpointsMakeOneUpstream(t *testing.T) {
	translator := translate.New(options())
	s := store.New("files")
	s.Replace("files", append(decoded(t, textOf(1, "/a")), decoded(t, textOf(2, "/a"))...))
	view, _ := s.Take()
	before, _ := translator.Update(view, nil)
	moved := decoded(t, textOf(1, "/a"))[2]
	moved.Value.(*store.EndpointSlice).Endpoints[0].Address = "10.9.9.9"
	s.Apply("files", []*store.Object{moved}, nil)
	view, keys := s.Take()
	after, _ := translator.Update(view, keys)
	if before.Pipelines != after.Pipelines || before.Certificates != after.Certificates || before.RuleSets["sluice/ingress"] != after.RuleSets["sluice/ingress"] || before.Servers[0] != after.Servers[0] {
		t.Error("something beside the upstreams is new")
	}
	for _, name := range []string{"shop/svc-1:80", "shop/svc-2:80"} {
		a, _ := before.Upstreams.Get(name)
		b, _ := after.Upstreams.Get(name)
		if (a != b) != (name == "shop/svc-1:80") {
			t.Errorf("upstream %s: %v and %v", name, a, b)
		}
	}
}
