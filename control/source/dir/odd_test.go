package dir

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/internal/testkit"
)

// TestOddFiles are read, said to be unreadable or passed over; none of them keeps the others waiting.
func TestOddFiles(t *testing.T) {
	w := start(t, func(w *world) {
		w.write("future.yaml", service("future"))
		w.do(os.Chtimes(w.path("future.yaml"), time.Now().AddDate(5, 0, 0), time.Now().AddDate(5, 0, 0)))
		w.do(syscall.Mkfifo(w.path("pipe.yaml"), 0o600))
		w.do(os.Mkdir(w.path("folder.yaml"), 0o755))
		w.write("folder.yaml/x.yaml", service("in-folder"))
		w.do(os.Symlink("nowhere.yaml", w.path("dangling.yaml")))
		w.do(os.Symlink("self.yaml", w.path("self.yaml")))
		w.do(os.Symlink(".", w.path("loop")))
		w.do(os.Symlink("..", w.path("folder.yaml/up")))
		huge, err := os.Create(w.path("huge.yaml"))
		w.do(err)
		w.do(huge.Truncate(maxFile + 1))
		w.do(huge.Close())
	})
	if got := w.names(); got != "future in-folder" {
		t.Errorf("at the moment of Synced the store has %q", got)
	}
	w.awaitProblem("Unreadable", "pipe.yaml")
	w.awaitProblem("Unreadable", "huge.yaml")
	if problems := w.problems(); len(problems) != 2 {
		t.Errorf("problems %v", problems)
	}
	w.do(os.Mkdir(w.path("later.yaml"), 0o755))
	w.write("later.yaml/y.yaml", service("later"))
	w.await("future in-folder later")
}

// TestAFileThatCannotBeRead keeps what it had until it can.
func TestAFileThatCannotBeRead(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	w := start(t, func(w *world) { w.write("a.yaml", service("a")) })
	w.do(os.Chmod(w.path("a.yaml"), 0))
	w.awaitProblem("Unreadable", "permission")
	w.await("a")
	w.do(os.Chmod(w.path("a.yaml"), 0o600))
	testkit.Eventually(t, 10*time.Second, "no problem is left", func() bool { return len(w.problems()) == 0 })
}

// TestAFileThatNeverRests does not keep the others from being served.
func TestAFileThatNeverRests(t *testing.T) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	w := start(t, func(w *world) {
		w.write("a.yaml", service("a"))
		busy, err := os.Create(w.path("busy.json"))
		w.do(err)
		go func() {
			defer close(stopped)
			defer busy.Close()
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					fmt.Fprintln(busy)
				}
			}
		}()
	})
	if got := w.names(); got != "a" {
		t.Errorf("the store has %q", got)
	}
	close(stop)
	<-stopped
}

// TestLinks: a link may be pointed elsewhere, and what it leads to may change.
func TestLinks(t *testing.T) {
	w := start(t, func(w *world) {
		for _, folder := range []string{"one", "two", "m"} {
			w.do(os.Mkdir(w.path(folder), 0o755))
		}
		w.write("one/a.yaml", service("one"))
		w.write("two/a.yaml", service("two"))
		w.do(os.Symlink("one", w.path("root")))
		w.write("target", service("t1"))
		w.do(os.Symlink("../target", w.path("m/linked.yaml")))
	}, "root", "m")
	w.await("one t1")
	w.write("one/a.yaml", service("uno"))
	w.await("t1 uno")
	w.do(os.Symlink("two", w.path("root.new")))
	w.do(os.Rename(w.path("root.new"), w.path("root")))
	w.await("t1 two")
	w.write("two/a.yaml", service("due"))
	w.await("due t1")
	w.write("target", service("t2"))
	w.await("due t2")
}

// TestThousandsOfFilesAppear in a folder that is watched.
func TestThousandsOfFilesAppear(t *testing.T) {
	w := start(t, nil)
	const n = 1500
	for i := range n {
		w.write(fmt.Sprintf("%04d.yaml", i), service(fmt.Sprintf("s%04d", i)))
	}
	testkit.Eventually(t, 20*time.Second, "all are read", func() bool { view, _ := w.store.Take(); return view.Len(store.KindService) == n })
	for i := range n {
		w.do(os.Remove(w.path(fmt.Sprintf("%04d.yaml", i))))
	}
	w.await("")
}

const ingress = `---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: i%[1]d, namespace: shop, labels: {app: shop, team: a}, annotations: {note: "made by a tool"}}
spec:
  ingressClassName: sluice
  tls: [{hosts: [h%[1]d.example.org], secretName: s%[1]d}]
  rules:
  - host: h%[1]d.example.org
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web%[1]d, port: {number: 80}}}}
      - {path: /api, pathType: Prefix, backend: {service: {name: api%[1]d, port: {name: http}}}}
`

// BenchmarkFirstRead reads ten thousand Ingresses, from as many files and from one; B-kept/op is what stays of them.
func BenchmarkFirstRead(b *testing.B) {
	for _, files := range []int{10_000, 1} {
		b.Run(fmt.Sprintf("%d-files", files), func(b *testing.B) {
			dir := b.TempDir()
			for i := range files {
				var text strings.Builder
				for j := range 10_000 / files {
					fmt.Fprintf(&text, ingress, i*(10_000/files)+j)
				}
				if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.yaml", i)), []byte(text.String()), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			var before, after runtime.MemStats
			for b.Loop() {
				runtime.GC()
				runtime.ReadMemStats(&before)
				w := startBench(b, dir)
				runtime.GC()
				runtime.ReadMemStats(&after)
				if view, _ := w.store.Take(); view.Len(store.KindIngress) != 10_000 {
					b.Fatal(view.Len(store.KindIngress))
				}
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc), "B-kept/op")
				runtime.KeepAlive(w)
			}
		})
	}
}
