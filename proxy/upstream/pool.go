package upstream

import (
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
	settings *Settings
	metrics  *telemetry.Upstream
	room     *room
	current  atomic.Pointer[set]
	ejected  atomic.Int64 // the latest end of an ejection, on the clock of Settings.clock
	budget   budget
	warned   atomic.Int64 // when a malformed response was last logged, likewise

	mu        sync.Mutex // guards what follows, and changes of current; not held during I/O
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
}

// member is an endpoint as one set has it.
type member struct {
	*endpoint
	host        string // to send when the client's is not kept
	named       bool   // host is a name, not an address
	keepHost    bool
	weight      int
	terminating bool
}

func newPool(name string, settings *Settings, room *room) *Pool {
	p := &Pool{
		name: name, settings: settings, room: room, metrics: settings.Metrics.Upstream(name),
		endpoints: map[string]*endpoint{},
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
	next, named, err := p.compile(u)
	serving := make(map[*endpoint]bool, len(next.members))
	for _, m := range next.members {
		serving[m.endpoint] = true
		m.serve(true)
	}
	p.current.Store(next) // whoever meets a retired endpoint finds the new set
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
	p.mu.Unlock()
	closeAll(idle)
	return err
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
	for i := range u.Endpoints {
		spec := &u.Endpoints[i]
		if !dialable(spec.Address) {
			errs = append(errs, fmt.Errorf("upstream %s: endpoint %q has no port to connect to", u.Name, spec.Address))
			continue
		}
		if named[spec.Address] {
			continue
		}
		named[spec.Address] = true
		m := p.member(spec, weighted)
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
		next.reason, next.detail = message.NoEndpoints, u.Detail
		if u.Reason != "" {
			next.reason = message.ReasonNamed(u.Reason)
		}
	}
	next.picker, err = picker(u.LoadBalance.Policy, next.members)
	if err != nil {
		errs = append(errs, fmt.Errorf("upstream %s: %w", u.Name, err))
	}
	return next, named, errors.Join(errs...)
}

func (p *Pool) member(spec *model.Endpoint, weighted bool) *member {
	e := p.endpoints[spec.Address]
	if e == nil {
		e = &endpoint{pool: p, address: spec.Address, key: balance.Hash(spec.Address)}
		p.endpoints[spec.Address] = e
	}
	m := &member{endpoint: e, host: spec.Host, keepHost: spec.KeepHost, weight: spec.Weight, terminating: spec.Terminating}
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
	p.current.Store(&set{reason: message.NoEndpoints})
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
