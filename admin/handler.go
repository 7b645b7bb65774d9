package admin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice.dev/sluice/model"
)

// Settings are what the handler shows. Every function may be called from many goroutines at once.
type Settings struct {
	Log      *slog.Logger
	Metrics  prometheus.Gatherer
	Ready    func() Readiness
	Explain  func(*Question) []model.Step
	Config   func() []byte // YAML, without secrets
	Problems func() []Problem
}

// Readiness says whether traffic is welcome.
type Readiness struct {
	Waiting  []string // why it is not, empty when it is
	Degraded []string // what does not work though traffic is welcome
}

// Problem is a problem and where it stands.
type Problem struct {
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Severity string `json:"severity"`
	Object   string `json:"object"`
	Field    string `json:"field,omitempty"`
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	Mend     string `json:"mend,omitempty"`
}

type handler struct {
	settings Settings
	writing  sync.Mutex // of a config: it may be large
	profiles sync.Mutex // of the CPU: there is one at a time
}

// New returns the handler of the admin address.
func New(settings Settings) http.Handler {
	h := &handler{settings: settings}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", h.healthz)
	mux.HandleFunc("/readyz", h.readyz)
	mux.Handle("/metrics", promhttp.HandlerFor(settings.Metrics, promhttp.HandlerOpts{
		// No Timeout: it would gather the whole answer in memory, which with thousands of upstreams is tens of megabytes. The server has one.
		MaxRequestsInFlight: 10, EnableOpenMetrics: true,
		ErrorLog: errorLog{settings.Log},
	}))
	private := map[string]http.HandlerFunc{
		"/explain": h.explain, "/debug/config": h.config, "/debug/problems": h.problems, "/{$}": h.root,
		"/debug/pprof/profile": h.cpu, "/debug/pprof/{name}": profile,
	}
	for pattern, serve := range private {
		mux.Handle(pattern, guard(serve))
	}
	return readOnly(mux)
}

// errorLog takes what the metrics handler cannot show.
type errorLog struct{ log *slog.Logger }

func (e errorLog) Println(v ...any) {
	e.log.Error("metrics could not be gathered", "error", fmt.Sprint(v...))
}

func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

func (h *handler) readyz(w http.ResponseWriter, _ *http.Request) {
	r := h.settings.Ready()
	if len(r.Waiting) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready")
	} else {
		fmt.Fprintln(w, "ready")
	}
	for _, why := range r.Waiting {
		fmt.Fprintln(w, "- "+why)
	}
	for _, what := range r.Degraded {
		fmt.Fprintln(w, "- degraded: "+what)
	}
}

func (h *handler) root(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprint(w, `/healthz          alive
/readyz           ready for traffic, or why not
/metrics          Prometheus metrics
/explain          why a request gets its answer: ?url=http://host/path, and method=GET, header=K: V, client=ADDRESS
/debug/config     the running config, without secrets
/debug/problems   what is wrong with which object
/debug/pprof/     profile?seconds=10 (of the CPU), heap, allocs, goroutine, mutex, block
`)
}

func (h *handler) explain(w http.ResponseWriter, r *http.Request) {
	q, err := ParseQuestion(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answerJSON(w, h.settings.Explain(q))
}

func (h *handler) config(w http.ResponseWriter, _ *http.Request) {
	h.writing.Lock()
	text := h.settings.Config()
	h.writing.Unlock()
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	_, _ = w.Write(text) // the client went away
}

func (h *handler) problems(w http.ResponseWriter, _ *http.Request) {
	all := h.settings.Problems()
	if all == nil {
		all = []Problem{}
	}
	answerJSON(w, all)
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // the client went away
}
