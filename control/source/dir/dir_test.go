package dir

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
)

// world is a Source that runs over a folder, and the store that it fills.
type world struct {
	t      *testing.T
	dir    string
	store  *store.Store
	source *Source
	log    testLog
}

// testLog is a log that a test may read while it is written.
type testLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// awaitLog waits for a line and forgets what was logged.
func (w *world) awaitLog(want string) {
	w.t.Helper()
	testkit.Eventually(w.t, 10*time.Second, "the log says "+want, func() bool {
		w.log.mu.Lock()
		defer w.log.mu.Unlock()
		found := strings.Contains(w.log.text.String(), want)
		if found {
			w.log.text.Reset()
		}
		return found
	})
}

func start(t *testing.T, prepare func(w *world), paths ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	if prepare != nil {
		prepare(w)
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	for i := range paths {
		paths[i] = filepath.Join(w.dir, paths[i])
	}
	w.run(t, paths)
	return w
}

// startBench is start over a folder that is there.
func startBench(b *testing.B, dir string) *world {
	b.Helper()
	w := &world{dir: dir}
	w.run(b, []string{dir})
	return w
}

// run runs a Source until the test ends, and returns when it is synced.
func (w *world) run(t testing.TB, paths []string) {
	t.Helper()
	w.store = store.New("files")
	var err error
	if w.source, err = New(Settings{Name: "files", Paths: paths, Store: w.store, Log: slog.New(slog.NewTextHandler(&w.log, nil))}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.source.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-w.source.Synced():
	case <-time.After(30 * time.Second):
		t.Fatal("not synced")
	}
}

func service(names ...string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec: {ports: [{port: 80}]}\n", name)
	}
	return b.String()
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// names are the Services in the store; problems the reasons of everything in it.
func (w *world) names() string {
	view, _ := w.store.Take()
	var names []string
	for o := range store.List[*store.Service](view, store.KindService) {
		names = append(names, o.Key.Name)
	}
	return strings.Join(names, " ")
}

func (w *world) problems() (all []model.Problem) {
	view, _ := w.store.Take()
	for o := range view.All() {
		all = append(all, view.Problems(o.Key)...)
	}
	return all
}

func (w *world) await(want string) {
	w.t.Helper()
	testkit.Eventually(w.t, 10*time.Second, "the Services are "+want, func() bool { return w.names() == want })
}

func (w *world) awaitProblem(reason, where string) {
	w.t.Helper()
	testkit.Eventually(w.t, 10*time.Second, reason+" at "+where, func() bool {
		return slices.ContainsFunc(w.problems(), func(p model.Problem) bool {
			return (reason == "" || p.Reason == reason) && strings.Contains(p.String(), where)
		})
	})
}

func TestFirstReadIsWhole(t *testing.T) {
	w := start(t, func(w *world) {
		w.write("a.yaml", service("a", "b"))
		w.do(os.MkdirAll(w.path("deep/er"), 0o755))
		w.write("deep/er/c.yml", service("c"))
		w.write("d.json", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"d"},"spec":{"ports":[{"port":80}]}}`)
		w.write(".hidden.yaml", service("hidden"))
		w.write("a.yaml~", service("backup"))
		w.write("notes.txt", service("notes"))
	})
	if got := w.names(); got != "a b c d" {
		t.Errorf("at the moment of Synced the store has %q", got)
	}
}

func TestWaysToChangeAFile(t *testing.T) {
	w := start(t, func(w *world) { w.write("a.yaml", service("one")) })
	w.await("one")
	w.write("a.yaml", service("two")) // in place
	w.await("two")
	w.write("a.yaml.new", service("three")) // by rename
	w.do(os.Rename(w.path("a.yaml.new"), w.path("a.yaml")))
	w.await("three")
	w.do(os.Rename(w.path("a.yaml"), w.path("a.yaml~"))) // as vim does it
	w.write("a.yaml", service("four"))
	w.await("four")
	w.do(os.Remove(w.path("a.yaml")))
	w.await("")
	w.write("a.yaml", service("five"))
	w.await("five")
	w.do(os.MkdirAll(w.path("later"), 0o755))
	w.write("later/b.yaml", service("six"))
	w.await("five six")
	w.do(os.RemoveAll(w.path("later")))
	w.await("five")
}

// TestAHalfWrittenFileIsNotRead writes slowly; what is read in between must never reach the store.
func TestAHalfWrittenFileIsNotRead(t *testing.T) {
	w := start(t, func(w *world) { w.write("a.yaml", service("old")) })
	w.await("old")
	f, err := os.Create(w.path("a.yaml"))
	w.do(err)
	text := service("n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7")
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	for i := 0; i < len(text); i += 60 {
		_, err := f.WriteString(text[i:min(len(text), i+60)])
		w.do(err)
		<-tick.C
		if got := w.names(); got != "old" && i+60 < len(text) {
			t.Fatalf("half a file was read: %q", got)
		}
	}
	w.do(f.Close())
	w.await("n0 n1 n2 n3 n4 n5 n6 n7")
}

func TestBrokenThenMendedThenEmpty(t *testing.T) {
	w := start(t, func(w *world) { w.write("a.yaml", service("a", "b")); w.write("z.yaml", service("z")) })
	w.write("a.yaml", service("a")+"---\n{{{ not yaml")
	w.awaitProblem("Unreadable", "line 7")
	if got := w.names(); got != "a b z" {
		t.Errorf("a broken file changed the store to %q", got)
	}
	w.write("z.yaml", service("y"))
	w.await("a b y")
	w.write("a.yaml", service("c"))
	w.await("c y")
	testkit.Eventually(t, 5*time.Second, "the problem is gone", func() bool { return len(w.problems()) == 0 })
	w.write("a.yaml", "{{{")
	w.awaitProblem("Unreadable", "a.yaml")
	w.await("c y")
	w.write("a.yaml", "")
	w.await("y")
}

// TestAnObjectThatCannotBeDecodedKeepsWhatItWas while the rest of its file changes.
func TestAnObjectThatCannotBeDecodedKeepsWhatItWas(t *testing.T) {
	w := start(t, func(w *world) { w.write("a.yaml", service("a", "b")) })
	w.write("a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: {port: many}}\n"+service("c"))
	w.await("a c")
	w.awaitProblem("", "Service default/a")
}

// TestMountedConfigMap swaps ..data as a kubelet does.
func TestMountedConfigMap(t *testing.T) {
	w := start(t, func(w *world) {
		w.do(os.MkdirAll(w.path("..v1"), 0o755))
		w.write("..v1/a.yaml", service("one"))
		w.do(os.Symlink("..v1", w.path("..data")))
		w.do(os.Symlink("..data/a.yaml", w.path("a.yaml")))
	})
	w.await("one")
	w.do(os.MkdirAll(w.path("..v2"), 0o755))
	w.write("..v2/a.yaml", service("two"))
	w.do(os.Symlink("..v2", w.path("..data_tmp")))
	w.do(os.Rename(w.path("..data_tmp"), w.path("..data")))
	w.do(os.RemoveAll(w.path("..v1")))
	w.await("two")
}

func TestAFileThatIsGivenByName(t *testing.T) {
	w := start(t, func(w *world) { w.write("x.conf", service("one")); w.write("y.yaml", service("not asked for")) }, "x.conf", "late/z.yaml")
	w.await("one")
	w.write("x.conf", service("two"))
	w.await("two")
	w.do(os.MkdirAll(w.path("late"), 0o755))
	w.write("late/z.yaml", service("late"))
	w.await("late two")
	w.do(os.Remove(w.path("x.conf")))
	w.await("late")
}

// TestAFolderThatVanishesKeepsItsObjects: a volume that is away takes no route down.
func TestAFolderThatVanishesKeepsItsObjects(t *testing.T) {
	w := start(t, func(w *world) {
		w.do(os.MkdirAll(w.path("m"), 0o755))
		w.write("m/a.yaml", service("a"))
	}, "m", "other.yaml")
	for _, vanish := range []func() error{
		func() error { return os.Rename(w.path("m"), w.path("away")) },
		func() error { return os.RemoveAll(w.path("m")) },
	} {
		w.await("a")
		w.do(vanish())
		w.write("other.yaml", service("other")) // read after the folder was missed
		w.awaitLog("is gone")
		w.await("a other")
		w.do(os.Remove(w.path("other.yaml")))
		w.await("a")
		w.do(os.MkdirAll(w.path("m"), 0o755))
		w.write("m/b.yaml", service("b"))
		w.await("b")
		w.do(os.Rename(w.path("m/b.yaml"), w.path("m/a.yaml")))
		w.write("m/a.yaml", service("a"))
	}
}

func TestTheSameObjectInTwoFiles(t *testing.T) {
	w := start(t, func(w *world) { w.write("a.yaml", service("x")); w.write("b.yaml", service("x", "y")) })
	w.await("x y")
	w.awaitProblem("DuplicateObject", "Service default/x")
	w.do(os.Remove(w.path("a.yaml")))
	testkit.Eventually(t, 10*time.Second, "no problem is left", func() bool { return len(w.problems()) == 0 })
	w.await("x y")
}

func TestManyFilesAtOnce(t *testing.T) {
	w := start(t, func(w *world) {
		for i := range 300 {
			w.write(fmt.Sprintf("%03d.yaml", i), service(fmt.Sprintf("s%03d", i)))
		}
	})
	if n := len(strings.Fields(w.names())); n != 300 {
		t.Fatalf("%d of 300", n)
	}
	for i := range 300 {
		w.write(fmt.Sprintf("%03d.yaml", i), service(fmt.Sprintf("t%03d", i)))
	}
	testkit.Eventually(t, 10*time.Second, "all are read again", func() bool { return strings.Count(w.names(), "t") == 300 })
}

func TestNoPath(t *testing.T) {
	if _, err := New(Settings{}); err == nil {
		t.Error("a source without a path was made")
	}
}
