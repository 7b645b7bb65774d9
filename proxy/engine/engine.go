package engine

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/proxy/certs"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/filters"
	"sluice.dev/sluice/proxy/upstream"
	"sluice.dev/sluice/telemetry"
)

// Settings are what an Engine is made with. Only Log is needed; a zero duration or number means the default in brackets.
type Settings struct {
	Log            *slog.Logger
	Metrics        *telemetry.Metrics // nil: none
	AccessLog      AccessLog          // nil: none
	Filters        []filter.Kind      // filters.Builtin
	TrustedProxies []netip.Prefix     // peers whose forwarding fields are believed
	Now            func() time.Time   // time.Now
	Listen         func(ctx context.Context, network, address string) (net.Listener, error)
	Upstream       upstream.Settings // of the pools; Log, Now and Metrics are those above

	MaxConnections   int           // of all servers together [what descriptors allow]; each server has its own limit besides
	HandshakeTimeout time.Duration // TLS [10s]
	TunnelIdle       time.Duration // silence that ends a tunnel [1h]
	DrainDelay       time.Duration // from the signal until listeners close [5s]; negative: none
	DrainTimeout     time.Duration // from then until what is left is cut [30s]
	BindRetry        time.Duration // between attempts to listen [3s]
}

// AccessLog takes one record for each exchange, and copies what it keeps: a *telemetry.AccessLog.
type AccessLog interface{ Write(*telemetry.Record) }

func (s *Settings) fill() {
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Listen == nil {
		s.Listen = new(net.ListenConfig).Listen
	}
	if s.Filters == nil {
		s.Filters = filters.Builtin()
	}
	for d, fallback := range map[*time.Duration]time.Duration{
		&s.HandshakeTimeout: 10 * time.Second, &s.TunnelIdle: time.Hour, &s.DrainDelay: 5 * time.Second,
		&s.DrainTimeout: 30 * time.Second, &s.BindRetry: 3 * time.Second,
	} {
		if *d == 0 {
			*d = fallback
		}
	}
}

// Engine runs one Config at a time.
type Engine struct {
	settings Settings
	snapshot atomic.Pointer[Snapshot]
	pools    *upstream.Pools
	certs    *certs.Store
	origins  origins
	limit    *limit
	tunnels  tunnels
	parting  parting

	inFlight atomic.Int64 // exchanges, tunnels not among them
	draining atomic.Bool
	stop     context.Context // over when Close was called
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex // Apply and everything else that makes a snapshot
	compiler compiler
	sockets  map[string]*socket // by key
	failed   map[string]error   // by key: why it could not be bound
	retired  []*conns           // to be drained after the swap
	leaving  map[string]uint64  // upstreams whose pool is still there, and the first generation without them
	retrying bool               // a timer runs
	closed   bool

	closePools sync.Once
}

// New returns an engine that runs an empty Config.
func New(settings Settings) *Engine {
	settings.fill()
	e := &Engine{
		settings: settings,
		origins:  origins{metrics: settings.Metrics, paths: map[string]int{}},
		limit:    newLimit(settings.MaxConnections),
		sockets:  map[string]*socket{},
		failed:   map[string]error{},
		leaving:  map[string]uint64{},
	}
	e.stop, e.cancel = context.WithCancel(context.Background())
	pools := settings.Upstream
	pools.Log, pools.Now, pools.Metrics = settings.Log, settings.Now, settings.Metrics
	if pools.MaxConnections == 0 {
		pools.MaxConnections = int(e.limit.upstreams)
	}
	e.pools = upstream.New(pools)
	e.certs = certs.New(certs.Settings{Log: settings.Log, Now: settings.Now, Metrics: settings.Metrics})
	e.compiler = compiler{
		engine: e, registry: filters.NewRegistry(settings.Filters...),
		users: map[string]map[string]bool{}, problems: map[any][]model.Problem{},
	}
	e.snapshot.Store(&Snapshot{Config: &model.Config{}})
	return e
}

// Snapshot returns what runs now.
func (e *Engine) Snapshot() *Snapshot { return e.snapshot.Load() }

// Pools returns the running upstreams, for status.
func (e *Engine) Pools() *upstream.Pools { return e.pools }

// Apply makes c what runs. It returns when new requests are served by it; connections and exchanges in flight are not
// touched. What it could not do stands in the Outcome, of the whole config each time.
func (e *Engine) Apply(c *model.Config) model.Outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	start := e.settings.Now()
	prev := e.snapshot.Load()
	next := e.compiler.compile(prev, c)
	e.servers(prev, next)
	unused := e.bind(prev, next)
	e.snapshot.Store(next)
	e.start()
	e.letGo(unused)
	e.afterSwap(prev, next)
	o := model.Outcome{Generation: next.Generation, Took: e.settings.Now().Sub(start), Problems: e.compiler.all()}
	e.settings.Metrics.Applied(o.Generation, o.Took, len(o.Problems))
	return o
}

// letGo closes sockets that are no longer wanted and drains their connections. An address that was only taken by one of
// them can be bound now.
func (e *Engine) letGo(unused []*socket) {
	for _, s := range unused {
		s.listener.Close()
		e.retired = append(e.retired, s.conns)
		e.settings.Log.Info("stopped listening", "address", s.listener.Addr().String())
	}
	for _, c := range e.retired {
		e.running.Go(func() { c.retire(e.settings.DrainTimeout) })
	}
	e.retired = nil
	if len(unused) > 0 && len(e.failed) > 0 {
		e.rebind()
	}
}

// afterSwap forgets what only the previous snapshot had.
func (e *Engine) afterSwap(prev, next *Snapshot) {
	var gone []string
	for name, pair := range persist.Diff(prev.Config.Upstreams, next.Config.Upstreams) {
		if pair[1] == nil {
			gone = append(gone, name)
			e.leaving[name] = next.Generation
		}
	}
	if len(gone) > 0 {
		time.AfterFunc(poolGrace, func() { e.deletePools(gone, next.Generation) })
	}
	for _, s := range prev.servers {
		if !slices.ContainsFunc(next.servers, func(n *server) bool { return n.name == s.name }) {
			e.settings.Metrics.DropServer(s.name)
		}
	}
}

// poolGrace is how long a pool outlives its upstream: exchanges that began before the swap may not have come to it yet.
const poolGrace = 10 * time.Second

// deletePools deletes the pools of upstreams that left with a generation and have not come back since. One that came back and left again
// has a grace of its own from then on.
func (e *Engine) deletePools(names []string, generation uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	now := e.snapshot.Load().Config
	for _, name := range names {
		if e.leaving[name] != generation {
			continue
		}
		delete(e.leaving, name)
		if _, back := now.Upstreams.Get(name); !back {
			e.pools.Delete(name)
		}
	}
}

// closeWait bounds how long Close waits for goroutines, of which some may hang on an origin that says nothing.
const closeWait = 3 * time.Second

// Close cuts everything off: listeners, connections, tunnels, upstreams.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	e.cancel()
	for _, s := range e.sockets {
		s.listener.Close()
		s.conns.close()
	}
	e.mu.Unlock()
	e.tunnels.close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		e.running.Wait()
	}()
	patience := time.NewTimer(closeWait)
	defer patience.Stop()
	select {
	case <-over:
	case <-patience.C:
	}
	e.closePools.Do(e.pools.Close)
}
