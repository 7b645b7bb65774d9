package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics owns a registry and hands out handles. Labels come from bounded sets only: servers, upstreams and origins of the
// running config, code classes, and the fixed list of reasons.
type Metrics struct {
	registry *prometheus.Registry

	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	bytes       *prometheus.CounterVec
	inFlight    *prometheus.GaugeVec
	connections *prometheus.GaugeVec
	handshakes  *prometheus.CounterVec

	attempts  *prometheus.CounterVec
	waits     *prometheus.HistogramVec
	connects  *prometheus.CounterVec
	dialing   *prometheus.HistogramVec
	retries   *prometheus.CounterVec
	ejections *prometheus.CounterVec
	endpoints *prometheus.GaugeVec

	origins *prometheus.CounterVec

	generation   prometheus.Gauge
	applies      prometheus.Histogram
	live         prometheus.Histogram
	problems     prometheus.Gauge
	certificates *prometheus.GaugeVec
	panics       *prometheus.CounterVec
	dropped      prometheus.Counter

	mu      sync.Mutex
	servers map[string]*Server
	ups     map[string]*Upstream
	origin  map[string]*Origin
}

// seconds are the buckets of every duration: half a millisecond to a minute. Native buckets go with them for those who scrape them.
var seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

// New makes the metrics, with a registry of their own.
func New() *Metrics {
	m := &Metrics{
		registry:    prometheus.NewRegistry(),
		requests:    counter("sluice_server_requests_total", "Requests answered, by server, class of status and reason.", "server", "code", "reason"),
		durations:   histogram("sluice_server_request_duration_seconds", "Time from the request head to the end of the response, by server.", "server"),
		bytes:       counter("sluice_server_bytes_total", "Bytes of bodies, by server and direction.", "server", "direction"),
		inFlight:    gauge("sluice_server_requests_in_flight", "Requests being served, by server.", "server"),
		connections: gauge("sluice_server_connections_open", "Client connections open, by server.", "server"),
		handshakes:  counter("sluice_server_tls_handshakes_total", "TLS handshakes, by server and result.", "server", "result"),
		attempts:    counter("sluice_upstream_requests_total", "Exchanges with an upstream, by class of status and reason.", "upstream", "code", "reason"),
		waits:       histogram("sluice_upstream_response_head_duration_seconds", "Time until the response head, by upstream.", "upstream"),
		connects:    counter("sluice_upstream_connects_total", "Connections dialled, by upstream and result.", "upstream", "result"),
		dialing:     histogram("sluice_upstream_connect_duration_seconds", "Time to connect, by upstream.", "upstream"),
		retries:     counter("sluice_upstream_retries_total", "Attempts after the first, by upstream.", "upstream"),
		ejections:   counter("sluice_upstream_ejections_total", "Endpoints ejected after failures, by upstream.", "upstream"),
		endpoints:   gauge("sluice_upstream_endpoints", "Endpoints, by upstream and state.", "upstream", "state"),
		origins:     counter("sluice_origin_requests_total", "Requests by the object and field whose rule served them, and class of status.", "origin", "code"),
		generation:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_config_generation", Help: "Number of the running config."}),
		applies: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_config_apply_duration_seconds", Help: "Time to compile and swap a config.", Buckets: []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5},
		}),
		live: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_config_live_seconds", Help: "Time from when a change of an object is read until requests are served by it.",
			Buckets:                     []float64{.00025, .0005, .001, .0015, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .2, .5, 1, 2, 5, 10},
			NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		}),
		problems:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "sluice_config_problems", Help: "Problems of the running config."}),
		certificates: gauge("sluice_certificate_expiry_timestamp_seconds", "End of a certificate's validity, Unix time.", "certificate"),
		panics:       counter("sluice_panics_total", "Panics recovered, by where.", "where"),
		dropped:      prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_access_log_dropped_total", Help: "Access log records dropped because the log could not keep up."}),
		servers:      map[string]*Server{}, ups: map[string]*Upstream{}, origin: map[string]*Origin{},
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.requests, m.durations, m.bytes, m.inFlight, m.connections, m.handshakes,
		m.attempts, m.waits, m.connects, m.dialing, m.retries, m.ejections, m.endpoints,
		m.origins, m.generation, m.applies, m.live, m.problems, m.certificates, m.panics, m.dropped,
	)
	return m
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: seconds,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

// Registry is what /metrics shows.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Applied records that a config runs.
func (m *Metrics) Applied(generation uint64, took time.Duration, problems int) {
	if m == nil {
		return
	}
	m.generation.Set(float64(generation))
	m.applies.Observe(took.Seconds())
	m.problems.Set(float64(problems))
}

// Live records that changes are served now, by when each was read.
func (m *Metrics) Live(since []time.Time, now time.Time) {
	if m == nil {
		return
	}
	for _, t := range since {
		m.live.Observe(now.Sub(t).Seconds())
	}
}

// Certificate records when a certificate ends.
func (m *Metrics) Certificate(name string, notAfter time.Time) {
	if m != nil {
		m.certificates.WithLabelValues(name).Set(float64(notAfter.Unix()))
	}
}

// DropCertificate forgets a certificate.
func (m *Metrics) DropCertificate(name string) {
	if m != nil {
		m.certificates.DeleteLabelValues(name)
	}
}

// Source shows how old what a source of objects has may be; it is asked whenever somebody looks.
func (m *Metrics) Source(name string, stale func() time.Duration) {
	if m == nil {
		return
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sluice_source_stale_seconds", Help: "How long ago the source of objects was last known to be up to date.", ConstLabels: prometheus.Labels{"source": name},
	}, func() float64 { return stale().Seconds() }))
}

// Panic counts a recovered panic.
func (m *Metrics) Panic(where string) {
	if m != nil {
		m.panics.WithLabelValues(where).Inc()
	}
}

// AccessLogDropped counts a record that the access log had to drop.
func (m *Metrics) AccessLogDropped() {
	if m != nil {
		m.dropped.Inc()
	}
}
