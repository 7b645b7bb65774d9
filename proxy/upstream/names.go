package upstream

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/message"
)

// How long the addresses of a name hold before it is looked up again, whatever its time to live, and when that is not known; and how
// long a lookup that failed is waited for to be tried again.
const (
	shortestHold = time.Second
	longestHold  = 5 * time.Minute
	unknownHold  = 30 * time.Second
	firstRetry   = time.Second
	longestRetry = 30 * time.Second

	lookupTimeout = 10 * time.Second
	maxLookups    = 64 // at once, of all pools
)

// names are the host names among the endpoints of a pool. While there are some, a goroutine looks them up. The pool's lock guards them.
type names struct {
	byHost  map[string]*name
	wake    chan struct{} // there is a new one
	cancel  context.CancelFunc
	waiting chan struct{} // nil, or closed when there is an endpoint, or none to be hoped for
}

// name is a host name and the last addresses that it had.
type name struct {
	host     string
	addrs    []netip.Addr // ordered
	tried    bool
	due      time.Time
	failures int // in a row
	err      error
	refused  string // what was last said of its addresses
}

// nameIn returns the host of an endpoint that has to be looked up; "" for an address. The operator's own localhost is no such name: it
// never leads elsewhere (RFC 6761 §6.3), and connections try both families.
func nameIn(e *model.Endpoint, guard *model.Guard) string {
	host, _, err := net.SplitHostPort(e.Address)
	if err != nil || guard == nil && strings.EqualFold(host, "localhost") {
		return ""
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	return host
}

// follow makes the names those of u. The caller holds p.mu.
func (p *Pool) follow(u *model.Upstream) {
	wanted := map[string]bool{}
	for i := range u.Endpoints {
		if host := nameIn(&u.Endpoints[i], u.Guard); host != "" && dialable(u.Endpoints[i].Address) && !p.settings.Offline {
			wanted[host] = true
		}
	}
	for host := range p.names.byHost {
		if !wanted[host] {
			delete(p.names.byHost, host)
		}
	}
	for host := range wanted {
		if p.names.byHost[host] != nil {
			continue
		}
		if p.names.byHost == nil {
			p.names.byHost, p.names.wake = map[string]*name{}, make(chan struct{}, 1)
		}
		p.names.byHost[host] = &name{host: host, due: p.settings.Now()}
	}
	switch running := p.names.cancel != nil; {
	case running:
		select {
		case p.names.wake <- struct{}{}:
		default:
		}
	case len(wanted) > 0:
		ctx, cancel := context.WithCancel(context.Background())
		p.names.cancel = cancel
		p.pools.stopped.Go(func() { p.lookUpNames(ctx) })
	}
}

// lookUpNames looks each name up when it is time, until there are no more names.
func (p *Pool) lookUpNames(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		host, wait := p.nextName()
		switch {
		case host == "":
			return
		case wait <= 0:
			p.lookUpName(ctx, host)
		}
		timer.Reset(max(wait, 0))
		select {
		case <-ctx.Done():
			return
		case <-p.names.wake:
		case <-timer.C:
		}
	}
}

// nextName returns the name that is due first, and when; "" when there is none, and the goroutine has to end.
func (p *Pool) nextName() (host string, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first *name
	for _, n := range p.names.byHost {
		if first == nil || cmp.Or(n.due.Compare(first.due), strings.Compare(n.host, first.host)) < 0 {
			first = n
		}
	}
	if first == nil || p.closed {
		if p.names.cancel != nil {
			p.names.cancel()
			p.names.cancel = nil
		}
		return "", 0
	}
	return first.host, first.due.Sub(p.settings.Now())
}

func (p *Pool) lookUpName(ctx context.Context, host string) {
	select {
	case p.pools.lookups <- struct{}{}:
		defer func() { <-p.pools.lookups }()
	case <-ctx.Done():
		return
	}
	limited, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addrs, ttl, err := p.settings.Lookup(limited, host)
	if ctx.Err() == nil {
		p.learn(host, addrs, ttl, err)
	}
}

// learn takes the outcome of a lookup. A failure leaves the last addresses in use.
func (p *Pool) learn(host string, addrs []netip.Addr, ttl time.Duration, err error) {
	p.mu.Lock()
	n := p.names.byHost[host]
	if p.closed || n == nil {
		p.mu.Unlock()
		return
	}
	fresh := !n.tried
	n.tried = true
	now := p.settings.Now()
	if n.err = err; err != nil {
		n.due = now.Add(min(firstRetry<<min(n.failures, 10), longestRetry))
		if n.failures++; n.failures == 1 {
			p.settings.Log.Warn("name cannot be looked up", "upstream", p.name, "name", host, "error", err, "addresses", len(n.addrs))
		}
	} else {
		if ttl <= 0 {
			ttl = unknownHold
		}
		n.due = now.Add(min(max(ttl, shortestHold), longestHold))
		if n.failures > 0 {
			p.settings.Log.Info("name is looked up again", "upstream", p.name, "name", host)
		}
		n.failures = 0
		fresh = fresh || !slices.Equal(n.addrs, addrs)
		n.addrs = addrs
	}
	var idle []*conn
	if fresh {
		idle, _ = p.swap() // what is wrong with the upstream was said when it was set
	}
	p.mu.Unlock()
	closeAll(idle)
}

// located is an endpoint of an upstream, and where it is.
type located struct {
	spec    *model.Endpoint
	address string
	name    string // that has the address; "" when the endpoint is one itself
}

// locate puts the addresses that they have in the place of host names. The caller holds p.mu.
func (p *Pool) locate(u *model.Upstream) []located {
	all := make([]located, 0, len(u.Endpoints))
	for i := range u.Endpoints {
		spec := &u.Endpoints[i]
		n := p.names.byHost[nameIn(spec, u.Guard)]
		if n == nil {
			all = append(all, located{spec: spec, address: spec.Address})
			continue
		}
		_, port, _ := net.SplitHostPort(spec.Address) // it has one: the name stands among names
		var refused []string
		for _, addr := range n.addrs {
			address := net.JoinHostPort(addr.String(), port)
			at, _ := netip.ParseAddrPort(address)
			if what := u.Guard.Refuses(at); what != "" {
				refused = append(refused, address+", "+what)
				continue
			}
			all = append(all, located{spec, address, n.host})
		}
		p.noteRefused(n, strings.Join(refused, "; "))
	}
	return all
}

func (p *Pool) noteRefused(n *name, what string) {
	if what != "" && n.refused != what {
		p.settings.Log.Warn("address refused", "upstream", p.name, "name", n.host, "addresses", what)
	}
	n.refused = what
}

// absence says why names leave the pool without endpoints. The caller holds p.mu.
func (p *Pool) absence() (message.Reason, string) {
	reason, detail := message.NoEndpoints, ""
	for _, n := range p.names.byHost {
		switch {
		case n.refused != "":
			return message.AddressRefused, n.host + ": " + n.refused
		case len(n.addrs) > 0:
		case n.err != nil:
			reason, detail = message.NameUnresolved, n.err.Error()
		default:
			reason, detail = message.NameUnresolved, cmp.Or(detail, n.host+" has not been looked up yet")
		}
	}
	return reason, detail
}

// hopeful returns what is closed when a set without members has been replaced by a better one, or will not be soon; nil when nothing is
// to be waited for. The caller holds p.mu, and calls done when the next set is in use.
func (p *Pool) hopeful(next *set) (pending <-chan struct{}, done func()) {
	untried := false
	for _, n := range p.names.byHost {
		untried = untried || !n.tried
	}
	waiting := p.names.waiting
	switch {
	case len(next.members) == 0 && untried && !p.closed:
		if waiting == nil {
			p.names.waiting = make(chan struct{})
		}
		return p.names.waiting, func() {}
	case waiting != nil:
		p.names.waiting = nil
		return nil, func() { close(waiting) }
	}
	return nil, func() {}
}

// await waits, once and no longer than for a connection, for the first addresses of names. It reports whether to look again.
func (f *flight) await(s *set) bool {
	if s.pending == nil || f.awaited {
		return false
	}
	f.awaited = true
	patience := time.NewTimer(f.pool.settings.ConnectTimeout)
	defer patience.Stop()
	select {
	case <-s.pending:
		return true
	case <-patience.C:
		return false
	}
}
