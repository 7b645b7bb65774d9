package upstream

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/balance"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/telemetry"
)

// Pool is the running form of one upstream. It is a filter.Upstream.
type Pool struct {
	name     string
	pools    *Pools
	settings *Settings
	metrics  *telemetry.Upstream
	room     *room
	current  atomic.Pointer[set]
	ejected  atomic.Int64 // the latest end of an ejection, on the clock of Settings.clock
	budget   budget
	warned   atomic.Int64 // when a malformed response was last logged, likewise

	mu        sync.Mutex // guards what follows, and changes of current; not held during I/O
	spec      *model.Upstream
	names     names
	endpoints map[string]*endpoint
	closed    bool
}

// set is what the pool chooses from, swapped as a whole. It is immutable.
type set struct {
	members   []*member
	total     int // with the terminating ones that are not members
	picker    *balance.Picker
	policy    string
	headerKey string         // for the policy headerHash
	reason    message.Reason // why there are no members
	detail    string
	pending   <-chan struct{} // nil, or closed when there are members, or none to be hoped for
}

// member is an endpoint as one set has it.
type member struct {
	*endpoint
	name        string // that was looked up
	host        string // to send when the client's is not kept
	named       bool   // host is a name, not an address
	keepHost    bool
	weight      int
	terminating bool
}

func newPool(name string, pools *Pools) *Pool {
	settings := &pools.settings
	p := &Pool{
		name: name, pools: pools, settings: settings, room: &pools.room, metrics: settings.Metrics.Upstream(name),
		spec: &model.Upstream{Name: name}, endpoints: map[string]*endpoint{},
	}
	p.budget.fill(&settings.Retry, settings.Now())
	p.current.Store(&set{reason: message.NoEndpoints})
	return p
}

// Name is the name of the upstream.
func (p *Pool) Name() string { return p.name }

func (p *Pool) set(u *model.Upstream) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.spec = u
	p.follow(u)
	idle, err := p.swap()
	p.mu.Unlock()
	closeAll(idle)
	return err
}

// swap puts in use what the upstream says and its names have. It returns the idle connections of endpoints that left, to be closed. The
// caller holds p.mu.
func (p *Pool) swap() ([]*conn, error) {
	next, named, err := p.compile(p.spec)
	pending, done := p.hopeful(next)
	next.pending = pending
	serving := make(map[*endpoint]bool, len(next.members))
	for _, m := range next.members {
		serving[m.endpoint] = true
		m.serve(true)
	}
	p.current.Store(next) // whoever meets a retired endpoint finds the new set
	done()
	var idle []*conn
	for address, e := range p.endpoints {
		if serving[e] {
			continue
		}
		idle = append(idle, e.serve(false)...)
		if !named[address] {
			delete(p.endpoints, address)
		}
	}
	p.metrics.Endpoints(len(next.members), next.total)
	return idle, err
}

// compile makes a set of u, with the endpoints that are known already; named has the addresses of all that u names.
func (p *Pool) compile(u *model.Upstream) (next *set, named map[string]bool, err error) {
	var errs []error
	var ready, terminating []*member
	named = make(map[string]bool, len(u.Endpoints))
	weighted := false
	for i := range u.Endpoints {
		weighted = weighted || u.Endpoints[i].Weight > 0
	}
	for _, at := range p.locate(u) {
		if !dialable(at.address) {
			errs = append(errs, fmt.Errorf("upstream %s: endpoint %q has no port to connect to", u.Name, at.address))
			continue
		}
		if named[at.address] {
			continue
		}
		named[at.address] = true
		m := p.member(at, weighted)
		switch {
		case m.weight == 0:
		case m.terminating:
			terminating = append(terminating, m)
		default:
			ready = append(ready, m)
		}
	}
	next = &set{members: ready, total: len(named), policy: u.LoadBalance.Policy, headerKey: u.LoadBalance.HeaderHashKey}
	if len(ready) == 0 {
		next.members = terminating
	}
	if len(next.members) == 0 {
		next.reason, next.detail = p.absence()
		if u.Reason != "" {
			next.reason = message.ReasonNamed(u.Reason)
		}
		next.detail = cmp.Or(u.Detail, next.detail)
	}
	next.picker, err = picker(u.LoadBalance.Policy, next.members)
	if err != nil {
		errs = append(errs, fmt.Errorf("upstream %s: %w", u.Name, err))
	}
	return next, named, errors.Join(errs...)
}

func (p *Pool) member(at located, weighted bool) *member {
	spec := at.spec
	e := p.endpoints[at.address]
	if e == nil {
		e = &endpoint{pool: p, address: at.address, key: balance.Hash(at.address)}
		p.endpoints[at.address] = e
	}
	m := &member{endpoint: e, name: at.name, host: spec.Host, keepHost: spec.KeepHost, weight: spec.Weight, terminating: spec.Terminating}
	if !weighted {
		m.weight = 1
	}
	if m.host == "" {
		m.host = spec.Address
	} else {
		m.named = !isAddress(spec.Host)
	}
	return m
}

// picker makes a picker; an unknown policy gives an error and roundRobin.
func picker(policy string, members []*member) (*balance.Picker, error) {
	items := make([]balance.Item, len(members))
	for i, m := range members {
		items[i] = balance.Item{Weight: m.weight, InFlight: &m.inFlight, Key: m.key}
	}
	chosen, err := balance.New(policy, items)
	if err != nil {
		chosen, _ = balance.New("", items) // the default is known
	}
	return chosen, err
}

// dialable reports whether address has a host and a port other than 0.
func dialable(address string) bool {
	host, port, err := net.SplitHostPort(address)
	number, numberErr := strconv.ParseUint(port, 10, 16)
	return err == nil && numberErr == nil && host != "" && number != 0
}

// isAddress reports whether host, with or without a port, is an IP address.
func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

func (p *Pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.names.cancel != nil {
		p.names.cancel()
	}
	none := &set{reason: message.NoEndpoints}
	_, done := p.hopeful(none)
	p.current.Store(none)
	done()
	var idle []*conn
	for _, e := range p.endpoints {
		idle = append(idle, e.serve(false)...)
	}
	clear(p.endpoints)
	p.mu.Unlock()
	closeAll(idle)
}

func (p *Pool) all() []*endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	endpoints := make([]*endpoint, 0, len(p.endpoints))
	for _, e := range p.endpoints {
		endpoints = append(endpoints, e)
	}
	return endpoints
}

func (p *Pool) reap() {
	before := p.settings.Now().Add(-p.settings.IdleTimeout)
	for _, e := range p.all() {
		closeAll(e.idle.olderThan(before))
	}
}
