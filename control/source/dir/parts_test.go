package dir

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model/document"
)

func largeService(i int) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: s%d}\nspec:\n  ports: [{name: http, port: %d}]\n# %s\n", i, 1+i%60000, strings.Repeat("x", 100))
}

// written writes a file and loads it.
func written(t testing.TB, path, text string, before *file) *file {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return load(path, signatureOf(path), before)
}

// TestPartsGiveTheSameAsTheWhole edits a large file at random and holds what is read against what is read of it from nothing.
func TestPartsGiveTheSameAsTheWhole(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(t.TempDir(), "a.yaml")
	docs := make([]string, 400)
	for i := range docs {
		docs[i] = largeService(i)
	}
	var last *file
	for range 120 {
		at := random.IntN(len(docs))
		switch random.IntN(8) {
		case 0:
			docs = slices.Delete(docs, at, at+1)
		case 1:
			docs = slices.Insert(docs, at, "# a comment\n\n"+largeService(1000+random.IntN(1000)))
		case 2:
			docs[at] = docs[random.IntN(len(docs))] // twice the same
		case 3:
			docs[at] = "apiVersion: v1\nkind: Service\nmetadata: {name: typo}\nspec: {prots: []}\n"
		case 4:
			docs[at] = "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(largeService(at)), "\n", "\n  ") + "\n"
		case 5:
			docs[at] = "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: x}\n"
		case 6:
			docs[at] = largeService(random.IntN(500)) + "...\n"
		default:
			docs[0], docs[at] = docs[at], docs[0]
		}
		text := strings.Join(docs, "---\n")
		next := written(t, path, text, last)
		want := load(path, signatureOf(path), nil)
		if diff := cmp.Diff(want.objects, next.objects, cmpopts.IgnoreUnexported(store.Object{})); diff != "" {
			t.Fatalf("objects (-whole +parts):\n%s", diff)
		}
		if diff := cmp.Diff(want.problems, next.problems); diff != "" {
			t.Fatalf("problems (-whole +parts):\n%s", diff)
		}
		last = next
	}
}

// TestPartsThatStayAreTheSameObjects changes one document of many, breaks the file, and mends it.
func TestPartsThatStayAreTheSameObjects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.yaml")
	docs := make([]string, 1000)
	for i := range docs {
		docs[i] = largeService(i)
	}
	first := written(t, path, strings.Join(docs, "---\n"), nil)
	was := slices.Clone(first.objects)
	docs[500] = strings.Replace(docs[500], "http", "web", 1)
	second := written(t, path, strings.Join(docs, "---\n"), first)
	for i, o := range second.objects {
		if (o == was[i]) != (i != 500) {
			t.Fatalf("object %d is the same: %v", i, o == was[i])
		}
	}
	if parsed := countParsed(path, second); parsed != 0 {
		t.Errorf("%d documents would be parsed again", parsed)
	}
	good := docs[3]
	docs[3] = strings.Replace(good, "ports: [", "ports: [[", 1)
	third := written(t, path, strings.Join(docs, "---\n"), second)
	if len(third.problems) != 1 || third.objects[500] != second.objects[500] || len(third.objects) != 1000 {
		t.Errorf("problems %v, %d objects", third.problems, len(third.objects))
	}
	docs[3] = good
	fourth := written(t, path, strings.Join(docs, "---\n"), third)
	if len(fourth.problems) != 0 || fourth.objects[999] != second.objects[999] {
		t.Errorf("problems %v", fourth.problems)
	}
}

// countParsed says how many documents of a file its parts do not know.
func countParsed(path string, f *file) (n int) {
	data, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	for range document.Some(path, data, newParts(&file{}, f, len(data)).skip()) {
		n++
	}
	return n
}

func BenchmarkOneOfTenThousandInAFile(b *testing.B) {
	path := filepath.Join(b.TempDir(), "a.yaml")
	docs := make([]string, 10_000)
	for i := range docs {
		docs[i] = largeService(i)
	}
	last := written(b, path, strings.Join(docs, "---\n"), nil)
	for i := 0; b.Loop(); i++ {
		docs[i%len(docs)] = largeService(20_000 + i)
		last = written(b, path, strings.Join(docs, "---\n"), last)
	}
}
