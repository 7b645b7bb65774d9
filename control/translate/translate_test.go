package translate_test

import (
	"slices"
	"strings"
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

// TestControllerKeepsItsPort adds an HTTPServer whose name comes first: the traffic of the Ingresses stays where it is.
func TestControllerKeepsItsPort(t *testing.T) {
	for _, c := range []struct{ name, text, loser string }{
		{"the same address", "kind: HTTPServer\nname: a\nport: 80\n", "HTTPServer a"},
		{"every address", "kind: HTTPServer\nname: a\nport: 80\naddress: '::'\n", "HTTPServer a"},
		{"two objects", "kind: HTTPServer\nname: b\nport: 81\n---\nkind: HTTPServer\nname: a\nport: 81\n", "HTTPServer b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, report := translate.Translate(viewOf(t, c.text), options())
			var names []string
			for _, s := range config.Servers {
				names = append(names, s.Name)
			}
			if !slices.Contains(names, "sluice/http") {
				t.Errorf("the servers are %v", names)
			}
			for _, p := range report.Problems() {
				if p.Reason == "PortTaken" && p.Origin.Key.String() != c.loser {
					t.Error(p)
				}
				if p.Reason == "PortTaken" {
					return
				}
			}
			t.Error("there is no Problem of the port")
		})
	}
}

// TestPinnedControllers adds an IngressController while a flag says where to listen: what serves stays, and the object has a Problem.
func TestPinnedControllers(t *testing.T) {
	o := options()
	o.Pinned = "--http"
	translator := translate.New(o)
	before, _ := translator.Update(viewOf(t, textOf(1, "/a")), nil)
	after, report := translator.Update(viewOf(t, textOf(1, "/a")+"---\nkind: IngressController\nname: late\nhttpServer: {port: 9000}\n"), nil)
	if diff := compareConfigs(before, after); diff != "" {
		t.Error(diff)
	}
	problems := report.Problems()
	if len(problems) != 1 || problems[0].Origin.Key.String() != "IngressController late" || !strings.Contains(problems[0].Message, "--http is set") {
		t.Errorf("problems: %v", problems)
	}
	if _, report = translator.Update(viewOf(t, textOf(1, "/a")), nil); len(report.Problems()) > 0 {
		t.Errorf("problems of an object that is gone: %v", report.Problems())
	}
}
