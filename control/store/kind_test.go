package store

import (
	"slices"
	"testing"

	"sluice.dev/sluice/model"
)

func in(namespace string) func(*Object) bool {
	return func(o *Object) bool { return namespace == "" || o.Key.Namespace == namespace }
}

func names(v View, kind string) (all []string) {
	for o := range v.All() {
		if o.Key.Kind == kind {
			all = append(all, o.Key.Path())
		}
	}
	return all
}

func TestReplaceKindLeavesTheRest(t *testing.T) {
	s := New("files", "kube")
	other := NewObject(KindService, "team", "web", &Service{})
	s.Apply("kube", []*Object{service("a", 1), service("b", 1), other, slice("a", "web")}, nil)
	s.Apply("files", []*Object{service("c", 1)}, nil)
	s.Take()
	s.ReplaceKind("kube", KindService, in("shop"), []*Object{service("b", 1), service("d", 1)})
	view, changed := s.Take()
	if got := names(view, KindService); !slices.Equal(got, []string{"shop/b", "shop/c", "shop/d", "team/web"}) {
		t.Errorf("services %v", got)
	}
	if view.Len(KindEndpointSlice) != 1 {
		t.Error("the slice is gone")
	}
	want := []model.Key{service("a", 0).Key, service("d", 0).Key}
	if !slices.Equal(changed, want) {
		t.Errorf("changed %v, want %v", changed, want)
	}
	s.ReplaceKind("kube", KindService, in(""), nil)
	if got := names(s.View(), KindService); !slices.Equal(got, []string{"shop/c"}) {
		t.Errorf("services %v, want that of the files", got)
	}
}

func TestReplaceKindTakesWhatAnotherSourceHides(t *testing.T) {
	s := New("files", "kube")
	s.Apply("kube", []*Object{service("web", 1)}, nil)
	s.ReplaceFile("files", "a.yaml", []*Object{service("web", 2)})
	s.ReplaceKind("kube", KindService, in("shop"), nil)
	key := service("web", 0).Key
	if view := s.View(); portOf(t, view, "web") != 2 || len(view.Shadowed(key)) != 0 {
		t.Errorf("port %d, hidden %v", portOf(t, view, "web"), view.Shadowed(key))
	}
	s.ReplaceFile("files", "a.yaml", nil)
	if s.View().Object(key) != nil {
		t.Error("the object that was replaced is back")
	}
}

func TestViewTakesNothing(t *testing.T) {
	s := New("kube")
	s.Apply("kube", []*Object{service("web", 1)}, nil)
	if s.View().Len(KindService) != 1 {
		t.Error("the view is empty")
	}
	if _, changed := s.Take(); len(changed) != 1 {
		t.Errorf("changed %v", changed)
	}
}
