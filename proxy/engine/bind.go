package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filters"
)

// socket is an address that the engine listens on. Which server answers there is looked up in the snapshot, by slot.
type socket struct {
	key      string
	slot     int
	listener net.Listener
	conns    *conns
	started  bool
	stopping atomic.Bool // accept is to end
}

// Bind says how the listening of one server stands.
type Bind struct {
	Server  string
	Address string // that was bound, or is wanted
	Bound   bool
	Error   string // why it is not
}

// Binds returns how every server's listening stands, in the order of the servers.
func (e *Engine) Binds() []Bind {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Bind
	for _, s := range e.snapshot.Load().servers {
		b := Bind{Server: s.name, Address: address(s.spec)}
		if s.conns != nil {
			b.Bound = true
			b.Address = e.sockets[s.key].listener.Addr().String()
		} else if err := e.failed[s.key]; err != nil {
			b.Error = err.Error()
		}
		all = append(all, b)
	}
	return all
}

// Addr returns the address that a server listens on.
func (e *Engine) Addr(server string) (net.Addr, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.snapshot.Load().servers {
		if s.name == server && s.conns != nil {
			return e.sockets[s.key].listener.Addr(), true
		}
	}
	return nil, false
}

func address(spec *model.HTTPServer) string {
	return net.JoinHostPort(strings.Trim(spec.Address, "[]"), strconv.Itoa(int(spec.Port)))
}

// socketKey is what makes two sockets the same. Port 0 is another port each time, so there the server's name does.
func socketKey(spec *model.HTTPServer) string {
	if spec.Port == 0 {
		return address(spec) + " " + spec.Name
	}
	return address(spec)
}

type bindKey string

// servers makes the servers of a snapshot, which takes nothing over from prev but what is costly.
func (e *Engine) servers(prev, next *Snapshot) {
	before := make(map[string]*server, len(prev.servers))
	for _, s := range prev.servers {
		before[s.name] = s
	}
	for _, spec := range next.Config.Servers {
		s := &server{
			name: spec.Name, spec: spec, key: socketKey(spec),
			rules: next.ruleSets[spec.RuleSet], tls: next.tlsSets[spec.TLSSet],
		}
		if old := before[spec.Name]; old != nil && old.spec == spec {
			s.allow, s.broken, s.maxBody, s.max, s.wire, s.metrics = old.allow, old.broken, old.maxBody, old.max, old.wire, old.metrics
		} else {
			e.configure(s, spec)
		}
		next.servers = append(next.servers, s)
		delete(before, spec.Name)
	}
	for name := range before {
		delete(e.compiler.problems, serverKey(name))
		delete(e.compiler.problems, bindKey(name))
	}
}

type serverKey string

func (e *Engine) configure(s *server, spec *model.HTTPServer) {
	s.metrics = e.settings.Metrics.Server(spec.Name)
	s.wire = wireSettings(spec)
	if s.maxBody = spec.ClientMaxBody; s.maxBody == 0 {
		s.maxBody = defaultMaxBody
	}
	if s.max = int64(spec.MaxConnections); s.max == 0 {
		s.max = defaultMaxConnections
	}
	if all := e.limit.max; s.max > all {
		e.settings.Log.Warn("fewer connections than the server's limit: descriptors are short", "server", s.name,
			"limit", s.max, "connections", all, "mend", "raise the limit of open files (ulimit -n, LimitNOFILE)")
	}
	var err error
	s.allow, err = filters.NewIPFilter(spec.IPFilter)
	s.broken = err != nil
	var found []model.Problem
	if err != nil {
		found = problemsOf(spec.Origin, "ipFilter", err)
	}
	e.compiler.blame(serverKey(spec.Name), found)
}

// bind gives the servers of next their sockets. New ones are bound now, before the swap, so that a server that is applied
// listens; those no longer wanted are returned, to be closed after it.
func (e *Engine) bind(prev, next *Snapshot) (unused []*socket) {
	next.slots = make([]*server, len(prev.slots), len(prev.slots)+len(next.servers))
	owner := map[string]*server{}
	for _, s := range next.servers {
		e.compiler.blame(bindKey(s.name), nil)
		if first := owner[s.key]; first != nil {
			e.compiler.blame(bindKey(s.name), []model.Problem{{
				Origin: within(s.spec.Origin, "port"), Reason: "PortTaken", Severity: model.Error,
				Message: fmt.Sprintf("server %s listens on %s already", first.name, address(s.spec)),
				Mend:    "give one of them another port or address",
			}})
			continue
		}
		owner[s.key] = s
		if sock, err := e.socket(s, next); err != nil {
			e.notBound(s, err)
		} else {
			e.place(prev, next, s, sock)
		}
	}
	for key, sock := range e.sockets {
		if owner[key] == nil {
			delete(e.sockets, key)
			sock.conns.final.Store(prev)
			unused = append(unused, sock)
		}
	}
	for key := range e.failed {
		if owner[key] == nil {
			delete(e.failed, key)
		}
	}
	return unused
}

// socket returns the socket of a server, bound now if it is not yet.
func (e *Engine) socket(s *server, next *Snapshot) (*socket, error) {
	if sock := e.sockets[s.key]; sock != nil {
		return sock, nil
	}
	if e.draining.Load() || e.closed {
		return nil, errors.New("shutting down")
	}
	if host := strings.Trim(s.spec.Address, "[]"); host != "" && host != "localhost" {
		if _, err := netip.ParseAddr(host); err != nil { // a name of an object is not looked up
			return nil, fmt.Errorf("%q is no IP address", host)
		}
	}
	ctx, cancel := context.WithTimeout(e.stop, 5*time.Second)
	defer cancel()
	listener, err := e.settings.Listen(ctx, "tcp", address(s.spec))
	if err != nil {
		return nil, err
	}
	sock := &socket{key: s.key, listener: listener, slot: freeSlot(next, e.sockets)}
	e.sockets[s.key] = sock
	return sock, nil
}

// freeSlot is the first slot that no socket has. One whose socket has gone may be given again: its connections are told
// apart by their conns.
func freeSlot(next *Snapshot, sockets map[string]*socket) int {
	taken := make([]bool, len(next.slots)+len(sockets)+1)
	for _, s := range sockets {
		taken[s.slot] = true
	}
	for slot := range taken {
		if !taken[slot] {
			return slot
		}
	}
	return len(taken) // not reached: there is one more place than sockets
}

// place puts a server where its socket finds it. A server that changed between plain and TLS keeps the socket; the
// connections there are finish as what they were.
func (e *Engine) place(prev, next *Snapshot, s *server, sock *socket) {
	delete(e.failed, s.key)
	if sock.conns == nil || sock.conns.https != s.spec.HTTPS {
		if old := sock.conns; old != nil {
			old.final.Store(prev)
			e.retired = append(e.retired, old)
		}
		sock.conns = newConns(e, sock.slot, s.spec.HTTPS)
	}
	s.conns = sock.conns
	for len(next.slots) <= sock.slot {
		next.slots = append(next.slots, nil)
	}
	next.slots[sock.slot] = s
}

// notBound makes a Problem of a failed bind and sees to it that it is tried again.
func (e *Engine) notBound(s *server, err error) {
	reason := err
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		reason = op.Err
	}
	p := model.Problem{
		Origin: within(s.spec.Origin, "port"), Reason: "BindFailed", Severity: model.Error,
		Message: fmt.Sprintf("cannot listen on %s: %v", address(s.spec), reason),
		Mend:    fmt.Sprintf("it is tried again every %s", e.settings.BindRetry),
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		p.Mend = "free the port or choose another one; " + p.Mend
	case errors.Is(err, syscall.EACCES):
		p.Mend = "choose a port from 1024, or let the process bind low ones; " + p.Mend
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		p.Mend = "choose an address of this host, or none for all; " + p.Mend
	}
	e.compiler.blame(bindKey(s.name), []model.Problem{p})
	if e.failed[s.key] == nil {
		e.settings.Log.Error("cannot listen, will try again", "server", s.name, "address", address(s.spec), "error", err)
	}
	e.failed[s.key] = err
}

// start begins to accept on sockets that are new, after the swap that made their server visible.
func (e *Engine) start() {
	for _, s := range e.sockets {
		if !s.started {
			s.started = true
			e.settings.Log.Info("listening", "address", s.listener.Addr().String())
			e.running.Go(func() { e.accept(s) })
		}
	}
	if len(e.failed) > 0 && !e.retrying {
		e.retrying = true
		time.AfterFunc(e.settings.BindRetry, e.retry)
	}
}

// retry binds what could not be bound. It makes a snapshot of its own, which differs in the sockets only.
func (e *Engine) retry() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retrying = false
	if !e.closed && !e.draining.Load() && len(e.failed) > 0 {
		e.rebind()
	}
}

func (e *Engine) rebind() {
	prev := e.snapshot.Load()
	next := *prev
	next.servers = make([]*server, len(prev.servers))
	for i, s := range prev.servers {
		again := *s
		again.conns = nil
		next.servers[i] = &again
	}
	unused := e.bind(prev, &next)
	e.snapshot.Store(&next)
	e.start()
	e.letGo(unused)
}
