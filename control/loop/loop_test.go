package loop

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/telemetry"
)

// translator records the keys of each batch, and may panic.
type translator struct {
	mu      sync.Mutex
	batches [][]string
	panics  bool
	poison  string // panics while a change has that name
	block   chan struct{}
}

func (tr *translator) Update(_ store.View, changed []model.Key) (*model.Config, *status.Report) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.panics || tr.poison != "" && slices.ContainsFunc(changed, func(k model.Key) bool { return k.Name == tr.poison }) {
		tr.panics = false
		panic("translate")
	}
	var names []string
	for _, k := range changed {
		names = append(names, k.Name)
	}
	tr.batches = append(tr.batches, names)
	if tr.block != nil {
		<-tr.block
	}
	return &model.Config{}, nil
}

func (tr *translator) seen() string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	var all []string
	for _, b := range tr.batches {
		all = append(all, strings.Join(b, "+"))
	}
	return strings.Join(all, " ")
}

type world struct {
	store  *store.Store
	tr     *translator
	synced chan struct{}
	loop   *Loop
	log    bytes.Buffer
	told   int
	made   *telemetry.Metrics
	end    context.CancelFunc
}

func start() *world {
	w := &world{store: store.New("files"), tr: &translator{}, synced: make(chan struct{}), made: telemetry.New()}
	w.loop = New(Settings{
		Metrics: w.made,
		Store:   w.store, Synced: []<-chan struct{}{w.synced}, Translator: w.tr, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Apply:  func(*model.Config) model.Outcome { return model.Outcome{} },
		Report: func(*status.Report, model.Outcome) { w.told++ },
	})
	ctx, cancel := context.WithCancel(context.Background())
	w.end = cancel
	go w.loop.Run(ctx)
	return w
}

func (w *world) put(name string) {
	w.store.Apply("files", []*store.Object{store.NewObject("Service", "default", name, &store.Service{})}, nil)
	synctest.Wait()
}

func TestFirstBatchWaitsForTheSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start()
		defer w.end()
		w.put("a")
		if got := w.tr.seen(); got != "" {
			t.Errorf("ran %q before its source was synced", got)
		}
		select {
		case <-w.loop.Ready():
			t.Error("ready before its source was synced")
		default:
		}
		close(w.synced)
		synctest.Wait()
		<-w.loop.Ready()
		w.put("b")
		if got := w.tr.seen(); !strings.HasPrefix(got, "a") || !strings.HasSuffix(got, "b") || w.loop.View().Len("Service") != 2 {
			t.Errorf("batches %q", got)
		}
		if w.told < 2 {
			t.Errorf("told %d times", w.told)
		}
	})
}

func TestChangesGatherWhileABatchRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start()
		defer w.end()
		w.tr.block = make(chan struct{})
		close(w.synced)
		synctest.Wait()
		for _, name := range []string{"a", "b", "c"} {
			w.put(name)
		}
		close(w.tr.block)
		synctest.Wait()
		if got := w.tr.seen(); got != " a+b+c" {
			t.Errorf("batches %q", got)
		}
	})
}

// TestALostBatchIsTriedAgain after a second, two, four, although nothing changes.
func TestALostBatchIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start()
		defer w.end()
		w.tr.poison = "a"
		w.put("a")
		close(w.synced)
		for range 3 {
			<-time.After(10 * time.Second)
		}
		synctest.Wait()
		if n := strings.Count(w.log.String(), "not applied"); n != 5 {
			t.Errorf("tried %d times in 30 s, want 5", n)
		}
		w.tr.mu.Lock()
		w.tr.poison = ""
		w.tr.mu.Unlock()
		<-time.After(time.Minute)
		<-w.loop.Ready()
		if got := w.tr.seen(); got != "a" {
			t.Errorf("batches %q", got)
		}
		w.store.Apply("files", nil, nil)
		<-time.After(time.Hour)
		synctest.Wait()
		if got := w.tr.seen(); got != "a" || w.told != 1 {
			t.Errorf("batches without a change: %q, told %d times", got, w.told)
		}
	})
}

// TestLiveCountsFromTheChange: what waits for a batch waits as long as it says, that of a lost batch included; the first batch is no
// change.
func TestLiveCountsFromTheChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start()
		defer w.end()
		w.put("before")
		close(w.synced)
		synctest.Wait()
		w.tr.mu.Lock()
		w.tr.block, w.tr.poison = make(chan struct{}), "b"
		w.tr.mu.Unlock()
		w.put("a") // its batch hangs
		<-time.After(time.Second)
		w.put("b")
		<-time.After(2 * time.Second)
		close(w.tr.block)
		synctest.Wait() // a after 3 s; b's batch is lost, and tried again after a second
		w.tr.mu.Lock()
		w.tr.poison = ""
		w.tr.mu.Unlock()
		<-time.After(1500 * time.Millisecond)
		synctest.Wait() // b after 3 s
		families, err := w.made.Registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "sluice_config_live_seconds" {
				if h := f.GetMetric()[0].GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() != 6 {
					t.Errorf("%d changes took %g s, want 2 and 6", h.GetSampleCount(), h.GetSampleSum())
				}
				return
			}
		}
		t.Error("no such metric")
	})
}

func TestAPanicCostsOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start()
		defer w.end()
		close(w.synced)
		synctest.Wait()
		w.tr.mu.Lock()
		w.tr.panics = true
		w.tr.mu.Unlock()
		w.put("a")
		w.put("b")
		if got := w.tr.seen(); got != " a+b" {
			t.Errorf("batches %q: what the lost batch had must come again", got)
		}
		if !strings.Contains(w.log.String(), "not applied") || !strings.Contains(w.log.String(), "loop.go") {
			t.Errorf("log %s", w.log.String())
		}
	})
}
