package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

func service(name string, port int32) *Object {
	return NewObject(KindService, "shop", name, &Service{Ports: []ServicePort{{Protocol: "TCP", Port: port, TargetPort: port}}})
}

func at(o *Object, file string, line int) *Object {
	o.File, o.Line = file, line
	return o
}

func slice(name, service string) *Object {
	return NewObject(KindEndpointSlice, "shop", name, &EndpointSlice{Service: service})
}

func portOf(t *testing.T, v View, name string) int32 {
	t.Helper()
	s, found := Get[*Service](v, model.Key{Kind: KindService, Namespace: "shop", Name: name})
	if !found {
		return 0
	}
	return s.Ports[0].Port
}

func TestTheSourceNamedFirstHasTheSay(t *testing.T) {
	s := New("files", "kube")
	s.Apply("kube", []*Object{service("web", 1)}, nil)
	s.ReplaceFile("files", "b.yaml", []*Object{service("web", 2)})
	view, keys := s.Take()
	key := model.Key{Kind: KindService, Namespace: "shop", Name: "web"}
	if got := portOf(t, view, "web"); got != 2 {
		t.Errorf("port %d, want that of the files", got)
	}
	if diff := cmp.Diff([]model.Key{key}, keys); diff != "" {
		t.Errorf("changed keys (-want +got):\n%s", diff)
	}
	problems := view.Problems(key)
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "b.yaml:0") || !strings.Contains(problems[0].Message, "source kube") {
		t.Errorf("problems: %v", problems)
	}

	s.ReplaceFile("files", "b.yaml", nil)
	view, keys = s.Take()
	if got := portOf(t, view, "web"); got != 1 {
		t.Errorf("port %d, want that of the other source", got)
	}
	if len(keys) != 1 || len(view.Problems(key)) != 0 {
		t.Errorf("changed %v, problems %v", keys, view.Problems(key))
	}
}

func TestTheFirstFileHasTheSay(t *testing.T) {
	s := New("files")
	s.ReplaceFile("files", "b.yaml", []*Object{at(service("web", 2), "", 1)})
	s.ReplaceFile("files", "a.yaml", []*Object{at(service("web", 5), "", 9), at(service("web", 1), "", 3)})
	view, _ := s.Take()
	if got := portOf(t, view, "web"); got != 1 {
		t.Errorf("port %d, want that of the first line of the first file", got)
	}
	if got := len(view.Shadowed(model.Key{Kind: KindService, Namespace: "shop", Name: "web"})); got != 2 {
		t.Errorf("%d shadowed, want 2", got)
	}
}

func TestAnEqualObjectIsNoChange(t *testing.T) {
	s := New("files")
	s.ReplaceFile("files", "a.yaml", []*Object{at(service("web", 1), "", 1)})
	before, _ := s.Take()
	<-s.Changed()
	s.ReplaceFile("files", "a.yaml", []*Object{at(service("web", 1), "", 7)})
	select {
	case <-s.Changed():
		t.Error("a signal for an object that only moved")
	default:
	}
	after, keys := s.Take()
	if len(keys) != 0 || len(Changes(before, after)) != 0 {
		t.Errorf("changed %v %v, want nothing", keys, Changes(before, after))
	}
	o := after.Object(model.Key{Kind: KindService, Namespace: "shop", Name: "web"})
	if o.Line != 7 {
		t.Errorf("line %d, want the new one", o.Line)
	}
	if o.Value != before.Object(o.Key).Value {
		t.Error("the value is a new pointer")
	}
}

func TestOneSignalForManyChanges(t *testing.T) {
	s := New("files")
	for i := range 10 {
		s.Apply("files", []*Object{service(fmt.Sprint("s", i), 1)}, nil)
	}
	<-s.Changed()
	select {
	case <-s.Changed():
		t.Error("two signals")
	default:
	}
	if _, keys := s.Take(); len(keys) != 10 {
		t.Errorf("%d keys, want 10", len(keys))
	}
}

func TestEndpointSlicesByService(t *testing.T) {
	s := New("kube")
	s.Apply("kube", []*Object{slice("b", "web"), slice("a", "web"), slice("c", "api")}, nil)
	old, _ := s.Take()
	names := func(v View, service string) (names []string) {
		for _, o := range v.EndpointSlices("shop/" + service) {
			names = append(names, o.Key.Name)
		}
		return names
	}
	s.Apply("kube", []*Object{slice("a", "api")}, []model.Key{slice("b", "").Key})
	now, _ := s.Take()
	for _, c := range []struct {
		view    View
		service string
		want    []string
	}{{old, "web", []string{"a", "b"}}, {old, "api", []string{"c"}}, {now, "web", nil}, {now, "api", []string{"a", "c"}}} {
		if got := names(c.view, c.service); !slices.Equal(got, c.want) {
			t.Errorf("slices of %s: %v, want %v", c.service, got, c.want)
		}
	}
}

// TestRandomChanges compares the store with a plain list of what each source has.
func TestRandomChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	sources := []string{"files", "kube"}
	s := New(sources...)
	have := map[string][]*Object{}
	before, _ := s.Take()
	for range 3000 {
		source := sources[random.IntN(2)]
		objs := make([]*Object, random.IntN(4))
		for i := range objs {
			objs[i] = at(service(fmt.Sprint("s", random.IntN(5)), int32(1+random.IntN(3))), "", i)
		}
		switch random.IntN(4) {
		case 0:
			s.Replace(source, objs)
			have[source] = objs
		case 1:
			gone := service(fmt.Sprint("s", random.IntN(5)), 1).Key
			objs = slices.CompactFunc(objs, func(a, b *Object) bool { return a.Key == b.Key })
			objs = slices.DeleteFunc(objs, func(o *Object) bool { return o.Key == gone })
			touched := append(keysOf(objs), gone)
			have[source] = append(slices.DeleteFunc(have[source], func(o *Object) bool { return slices.Contains(touched, o.Key) }), objs...)
			s.Apply(source, objs, []model.Key{gone})
		default:
			name := fmt.Sprint("f", random.IntN(3))
			s.ReplaceFile(source, name, objs)
			have[source] = append(slices.DeleteFunc(have[source], func(o *Object) bool { return o.File == name }), objs...)
		}
		view, keys := s.Take()
		compareWithList(t, s, view, have)
		if changes := Changes(before, view); !slices.Equal(changes, keys) {
			t.Fatalf("Take says %v, Changes %v", keys, changes)
		}
		before = view
	}
}

func compareWithList(t *testing.T, s *Store, view View, have map[string][]*Object) {
	t.Helper()
	all := slices.Concat(have["files"], have["kube"])
	slices.SortStableFunc(all, s.compare)
	for i := range 5 {
		name := fmt.Sprint("s", i)
		mine := slices.DeleteFunc(slices.Clone(all), func(o *Object) bool { return o.Key.Name != name })
		key := service(name, 0).Key
		if len(mine) == 0 {
			if view.Object(key) != nil {
				t.Fatalf("%s is still there", name)
			}
			continue
		}
		if got := view.Object(key); got == nil || !same(got, mine[0]) || !samePlace(got, mine[0]) {
			t.Fatalf("%s is %+v, want %+v", name, got, mine[0])
		}
		if got := view.Shadowed(key); !slices.EqualFunc(got, mine[1:], samePlace) {
			t.Fatalf("%s hides %v, want %v", name, got, mine[1:])
		}
	}
}

func decodeOne(t *testing.T, text string) (*Object, []model.Problem) {
	t.Helper()
	docs, errs := document.Parse("a.yaml", []byte(text))
	if len(errs) > 0 || len(docs) != 1 {
		t.Fatalf("%d documents, errors %v", len(docs), errs)
	}
	return Decode(docs[0])
}
