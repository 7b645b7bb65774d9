package pods

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	values := map[string]string{"A": "1", "B": "$(A)", "EMPTY": ""}
	for in, want := range map[string]string{
		"":             "",
		"plain":        "plain",
		"$(A)":         "1",
		"-$(A)-$(A)-":  "-1-1-",
		"$(B)":         "$(A)", // values are not expanded again
		"$(NONE)":      "$(NONE)",
		"$(EMPTY)x":    "x",
		"$$(A)":        "$(A)",
		"$$$(A)":       "$1",
		"$$$$(A)":      "$$(A)",
		"$A":           "$A",
		"$":            "$",
		"a$":           "a$",
		"$(A":          "$(A",
		"$(A $(A)":     "$(A $(A)",
		"cost: $5 $()": "cost: $5 $()",
	} {
		if got := expand(in, values); got != want {
			t.Errorf("expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestImages(t *testing.T) {
	images := Images{"a": {Command: []string{"1"}}, "a*": {Command: []string{"2"}}, "ab*": {Command: []string{"3"}}}
	for ref, want := range map[string]string{"a": "1", "ax": "2", "abc": "3", "ab": "3", "b": ""} {
		got, found := images.find(ref)
		if found != (want != "") || found && got.Command[0] != want {
			t.Errorf("find(%q) = %v, %v; want %q", ref, got, found, want)
		}
	}
	if _, found := (Images{}).find("x"); found {
		t.Error("an image was found among none")
	}
	if got, found := (Images{"*": {Command: []string{"any"}}}).find("x"); !found || got.Command[0] != "any" {
		t.Error("* does not stand for all")
	}
}

func TestParseImage(t *testing.T) {
	name, image, err := ParseImage("example.org/a:v1=/bin/echo -n x=y")
	if err != nil || name != "example.org/a:v1" || !cmp.Equal(image.Command, []string{"/bin/echo", "-n", "x=y"}) {
		t.Errorf("got %q %v %v", name, image, err)
	}
	for _, bad := range []string{"", "a", "=b", "a=", "a= "} {
		if _, _, err := ParseImage(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestTree follows a volume through changes as a container sees it.
func TestTree(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []struct {
		tree    tree
		changed bool
	}{
		{tree{"a": {[]byte("1"), 0o644}, "d/b": {[]byte("2"), 0o600}}, true},
		{tree{"a": {[]byte("1"), 0o644}, "d/b": {[]byte("2"), 0o600}}, false},
		{tree{"a": {[]byte("3"), 0o644}}, true},
		{tree{}, true},
		{tree{"d/c": {[]byte("4"), 0o644}}, true},
	} {
		changed, err := step.tree.write(dir, 0)
		if err != nil || changed != step.changed {
			t.Fatalf("write %v: %v, %v", step.tree, changed, err)
		}
		for name, f := range step.tree {
			data, err := os.ReadFile(filepath.Join(dir, name))
			info, statErr := os.Stat(filepath.Join(dir, name))
			if err != nil || statErr != nil || string(data) != string(f.data) || info.Mode().Perm() != f.mode {
				t.Errorf("%s: %q, %v, %v", name, data, err, statErr)
			}
		}
		for _, name := range []string{"a", "d/b", "d/c"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil && step.tree[name].data == nil {
				t.Errorf("%s is still there", name)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 { // ..data, the folder it points to, d
		t.Errorf("left over: %v, %v", entries, err)
	}
	if _, err := (tree{"../x": {}}).write(t.TempDir(), 0); err == nil {
		t.Error("a path out of the volume was written")
	}
}
