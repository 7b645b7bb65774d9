package telemetry

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// codes are the classes of status, by their first digit; 0 stands for no status at all.
var codes = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

func classOf(status int) int {
	if class := status / 100; class >= 1 && class <= 5 {
		return class
	}
	return 0
}

// life keeps what outlives its name, such as an exchange that ends after its upstream was removed, from bringing dropped series
// back.
type life struct {
	mu   sync.RWMutex
	gone bool
}

// enter reports whether series may be made until leave is called.
func (l *life) enter() bool {
	l.mu.RLock()
	if l.gone {
		l.mu.RUnlock()
		return false
	}
	return true
}

func (l *life) leave() { l.mu.RUnlock() }

func (l *life) end() {
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
}

// outcomes counts by class of status and reason. The pair that nearly every request has is resolved at once; the others are
// looked up. It knows its series, so that dropping them does not look through those of everybody else.
type outcomes struct {
	life
	vec    *prometheus.CounterVec
	name   string
	common [len(codes)]atomic.Pointer[prometheus.Counter] // by class, reason ok

	making sync.Mutex
	made   []outcome
}

// outcome is one series.
type outcome struct {
	class   int
	reason  string
	counter prometheus.Counter
}

const commonReason = "ok"

func (o *outcomes) count(status int, reason string) {
	class := classOf(status)
	if reason == commonReason {
		if c := o.common[class].Load(); c != nil {
			(*c).Inc()
			return
		}
	}
	if !o.enter() {
		return
	}
	defer o.leave()
	c := o.series(class, reason)
	c.Inc()
	if reason == commonReason {
		o.common[class].Store(&c)
	}
}

func (o *outcomes) series(class int, reason string) prometheus.Counter {
	o.making.Lock()
	defer o.making.Unlock()
	for _, known := range o.made {
		if known.class == class && known.reason == reason {
			return known.counter
		}
	}
	c := o.vec.WithLabelValues(o.name, codes[class], reason)
	o.made = append(o.made, outcome{class, reason, c})
	return c
}

// drop forgets the series, for good.
func (o *outcomes) drop() {
	o.end()
	o.making.Lock()
	defer o.making.Unlock()
	for _, known := range o.made {
		o.vec.DeleteLabelValues(o.name, codes[known.class], known.reason)
	}
}

// Server is the handle of one HTTPServer.
type Server struct {
	done        outcomes
	took        prometheus.Observer
	read, sent  prometheus.Counter
	inFlight    prometheus.Gauge
	connections prometheus.Gauge
	handshakes  *prometheus.CounterVec
	name        string
}

// Server returns the handle of a server, the same one for the same name.
func (m *Metrics) Server(name string) *Server {
	if m == nil {
		return nil
	}
	return handle(m, &m.servers, name, func() *Server {
		return &Server{
			done: outcomes{vec: m.requests, name: name}, took: m.durations.WithLabelValues(name), name: name,
			read: m.bytes.WithLabelValues(name, "in"), sent: m.bytes.WithLabelValues(name, "out"),
			inFlight: m.inFlight.WithLabelValues(name), connections: m.connections.WithLabelValues(name), handshakes: m.handshakes,
		}
	})
}

// Done records one request: its status, why, how long it took, and the bytes of its bodies.
func (s *Server) Done(status int, reason string, took time.Duration, read, written int64) {
	if s == nil {
		return
	}
	s.done.count(status, reason)
	s.took.Observe(took.Seconds())
	if read > 0 {
		s.read.Add(float64(read))
	}
	if written > 0 {
		s.sent.Add(float64(written))
	}
}

// InFlight adds to the requests being served.
func (s *Server) InFlight(delta int) {
	if s != nil {
		s.inFlight.Add(float64(delta))
	}
}

// Connections adds to the connections open.
func (s *Server) Connections(delta int) {
	if s != nil {
		s.connections.Add(float64(delta))
	}
}

// Handshake counts a TLS handshake by its result, one of a fixed set.
func (s *Server) Handshake(result string) {
	if s == nil || !s.done.enter() {
		return
	}
	defer s.done.leave()
	s.handshakes.WithLabelValues(s.name, result).Inc()
}

// DropServer forgets the series of a server.
func (m *Metrics) DropServer(name string) {
	if m == nil {
		return
	}
	s := forget(m, &m.servers, name)
	if s == nil {
		return
	}
	s.done.drop()
	drop("server", name, m.durations, m.bytes, m.inFlight, m.connections, m.handshakes) // there are few servers
}

// Upstream is the handle of one upstream. Its series appear with its first traffic, so that ten thousand idle upstreams cost
// none.
type Upstream struct {
	m     *Metrics
	name  string
	done  outcomes
	mu    sync.Mutex // guards the making of series, and ready and total
	live  atomic.Pointer[upstreamSeries]
	ready int
	total int
}

type upstreamSeries struct {
	took, dialing    prometheus.Observer
	retries, ejected prometheus.Counter
	ready, other     prometheus.Gauge
}

// Upstream returns the handle of an upstream, the same one for the same name.
func (m *Metrics) Upstream(name string) *Upstream {
	if m == nil {
		return nil
	}
	return handle(m, &m.ups, name, func() *Upstream {
		return &Upstream{m: m, name: name, done: outcomes{vec: m.attempts, name: name}}
	})
}

// series returns the series, nil when the upstream was dropped before it had any.
func (u *Upstream) series() *upstreamSeries {
	if s := u.live.Load(); s != nil {
		return s
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.done.enter() {
		return nil
	}
	defer u.done.leave()
	if s := u.live.Load(); s != nil {
		return s
	}
	s := &upstreamSeries{
		took: u.m.waits.WithLabelValues(u.name), dialing: u.m.dialing.WithLabelValues(u.name),
		retries: u.m.retries.WithLabelValues(u.name), ejected: u.m.ejections.WithLabelValues(u.name),
		ready: u.m.endpoints.WithLabelValues(u.name, endpointStates[0]), other: u.m.endpoints.WithLabelValues(u.name, endpointStates[1]),
	}
	s.ready.Set(float64(u.ready))
	s.other.Set(float64(u.total - u.ready))
	u.live.Store(s)
	return s
}

// Done records one exchange with the upstream and the time until its head.
func (u *Upstream) Done(status int, reason string, took time.Duration) {
	if u == nil {
		return
	}
	u.done.count(status, reason)
	if s := u.series(); s != nil {
		s.took.Observe(took.Seconds())
	}
}

// Connect records a dial.
func (u *Upstream) Connect(took time.Duration, ok bool) {
	if u == nil {
		return
	}
	result := connectResults[0]
	if ok {
		result = connectResults[1]
	}
	if s := u.series(); s != nil && u.done.enter() {
		s.dialing.Observe(took.Seconds())
		u.m.connects.WithLabelValues(u.name, result).Inc()
		u.done.leave()
	}
}

// Retry counts an attempt after the first.
func (u *Upstream) Retry() {
	if u == nil {
		return
	}
	if s := u.series(); s != nil {
		s.retries.Inc()
	}
}

// Eject counts an endpoint's ejection.
func (u *Upstream) Eject() {
	if u == nil {
		return
	}
	if s := u.series(); s != nil {
		s.ejected.Inc()
	}
}

// Endpoints records how many endpoints there are, and how many of them are used.
func (u *Upstream) Endpoints(ready, total int) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ready, u.total = ready, total
	if s := u.live.Load(); s != nil {
		s.ready.Set(float64(ready))
		s.other.Set(float64(total - ready))
	}
}

// DropUpstream forgets the series of an upstream.
func (m *Metrics) DropUpstream(name string) {
	if m == nil {
		return
	}
	u := forget(m, &m.ups, name)
	if u == nil {
		return
	}
	u.done.drop()
	for _, v := range []whole{m.waits, m.dialing, m.retries, m.ejections} {
		v.DeleteLabelValues(name)
	}
	for _, result := range connectResults {
		m.connects.DeleteLabelValues(name, result)
	}
	for _, state := range endpointStates {
		m.endpoints.DeleteLabelValues(name, state)
	}
}

// Labels of an upstream's series.
var (
	connectResults = [...]string{"failed", "ok"}
	endpointStates = [...]string{"ready", "other"}
)

type whole interface {
	DeleteLabelValues(...string) bool
}

// Origin is the handle of one rule's origin.
type Origin struct {
	life
	vec     *prometheus.CounterVec
	name    string
	classes [len(codes)]atomic.Pointer[prometheus.Counter]
}

// Origin returns the handle of an origin, the same one for the same name; its series appear with its first request.
func (m *Metrics) Origin(origin string) *Origin {
	if m == nil {
		return nil
	}
	return handle(m, &m.origin, origin, func() *Origin { return &Origin{vec: m.origins, name: origin} })
}

// Done counts one request.
func (o *Origin) Done(status int) {
	if o == nil {
		return
	}
	class := classOf(status)
	if c := o.classes[class].Load(); c != nil {
		(*c).Inc()
		return
	}
	if !o.enter() {
		return
	}
	defer o.leave()
	c := o.vec.WithLabelValues(o.name, codes[class])
	c.Inc()
	o.classes[class].Store(&c)
}

// DropOrigin forgets the series of an origin.
func (m *Metrics) DropOrigin(origin string) {
	if m == nil {
		return
	}
	o := forget(m, &m.origin, origin)
	if o == nil {
		return
	}
	o.end()
	for _, code := range codes {
		m.origins.DeleteLabelValues(origin, code)
	}
}

func handle[T any](m *Metrics, all *map[string]*T, name string, made func() *T) *T {
	m.mu.Lock()
	defer m.mu.Unlock()
	if (*all)[name] == nil {
		(*all)[name] = made()
	}
	return (*all)[name]
}

func forget[T any](m *Metrics, all *map[string]*T, name string) *T {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := (*all)[name]
	if delete(*all, name); len(*all) == 0 {
		*all = map[string]*T{} // a map keeps the room that it once needed
	}
	return known
}

type partial interface {
	DeletePartialMatch(prometheus.Labels) int
}

func drop(label, name string, vectors ...partial) {
	for _, v := range vectors {
		v.DeletePartialMatch(prometheus.Labels{label: name})
	}
}
