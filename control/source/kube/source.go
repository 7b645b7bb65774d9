package kube

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// Settings of a Source.
type Settings struct {
	Name       string // of the source in the store
	Server     *Server
	Namespaces []string // empty: all
	Store      *store.Store
	Log        *slog.Logger

	// Owns says of which Ingresses the Secrets are read that are not of type kubernetes.io/tls; nil: of all.
	Owns    func(store.View) func(*store.Object, *store.Ingress) bool
	Secrets []model.Key // that are read whoever names them
}

// Source reads an API server.
type Source struct {
	settings Settings
	client   *client
	health   *health
	states   *states
	named    *named
	feeds    []*feed
	synced   chan struct{}
}

// New makes a Source; Run starts it. Nothing is sent yet.
func New(settings Settings) (*Source, error) {
	c, err := newClient(settings.Server.config, nil)
	if err != nil {
		return nil, err
	}
	s := &Source{settings: settings, client: c, health: newHealth(settings.Log), states: newStates(), synced: make(chan struct{})}
	s.named = newNamed(s)
	namespaces := []string{""}
	if len(settings.Namespaces) > 0 {
		namespaces = slices.Compact(slices.Sorted(slices.Values(settings.Namespaces)))
	}
	for _, k := range kinds() {
		if k.global {
			s.feeds = append(s.feeds, s.feed(k, "", ""))
			continue
		}
		for _, namespace := range namespaces {
			s.feeds = append(s.feeds, s.feed(k, namespace, ""))
		}
	}
	return s, nil
}

// feed makes a feed of the store.
func (s *Source) feed(k kind, namespace, name string) *feed {
	f := newFeed(s.client, s.health, k)
	f.namespace, f.name, f.convert = namespace, name, convert
	switch k.name {
	case store.KindSecret:
		f.sink = &secretSink{s.named, f}
	case store.KindIngress:
		f.sink = &ingressSink{storeSink{s, f}}
	default:
		f.sink = &storeSink{s, f}
	}
	return f
}

// Synced is closed when everything that was there at the start has been read, but for what may not be read and is not needed.
func (s *Source) Synced() <-chan struct{} { return s.synced }

// Ready says why traffic is not welcome yet, and what is worse than it should be. A server that goes away later keeps nothing away.
func (s *Source) Ready() (waiting, degraded []string) {
	waiting, degraded = s.health.report()
	select {
	case <-s.synced:
		return nil, degraded
	default:
		return waiting, degraded
	}
}

// Refused reports whether something may not be read without which nothing is served: who reads only once need not wait.
func (s *Source) Refused() bool { return s.health.refusedNeeded() }

// Stale is how long ago the oldest part of what the source has was known to be fresh; 0 while everything is watched.
func (s *Source) Stale() time.Duration { return s.health.stale() }

// Run reads and watches until the context ends.
func (s *Source) Run(ctx context.Context) {
	ctx = quiet(ctx, s.settings.Log)
	var all sync.WaitGroup
	defer all.Wait()
	for _, f := range s.feeds {
		all.Go(func() { f.run(ctx) })
	}
	for _, f := range s.feeds {
		select {
		case <-f.first:
		case <-ctx.Done():
			return
		}
	}
	all.Go(func() { s.named.run(ctx) })
	select {
	case <-s.named.first:
		close(s.synced)
	case <-ctx.Done():
	}
}

// quiet lets the libraries log errors only: what else they say, this package says in its own words.
func quiet(ctx context.Context, log *slog.Logger) context.Context {
	return logr.NewContext(ctx, logr.FromSlogHandler(onlyErrors{log.Handler()}))
}

type onlyErrors struct{ slog.Handler }

// Enabled lets errors pass.
func (h onlyErrors) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError && h.Handler.Enabled(ctx, level)
}

// storeSink feeds the store.
type storeSink struct {
	source *Source
	feed   *feed
}

func (s *storeSink) replace(all []*item) {
	s.source.settings.Store.ReplaceKind(s.source.settings.Name, s.feed.kind.name, s.picks, objectsOf(all))
	s.source.named.look()
}

// picks reports whether an object of the kind is one that the feed brings.
func (s *storeSink) picks(o *store.Object) bool {
	return s.feed.namespace == "" || o.Key.Namespace == s.feed.namespace
}

func (s *storeSink) set(i *item) {
	before := s.source.settings.Store.View().Object(i.object.Key)
	s.source.settings.Store.Apply(s.source.settings.Name, []*store.Object{i.object}, nil)
	s.looked(before, i.object)
}

func (s *storeSink) remove(namespace, name string) {
	key := s.key(namespace, name)
	before := s.source.settings.Store.View().Object(key)
	s.source.settings.Store.Apply(s.source.settings.Name, nil, []model.Key{key})
	s.looked(before, nil)
}

func (s *storeSink) key(namespace, name string) model.Key {
	return model.Key{Kind: s.feed.kind.name, Namespace: namespace, Name: name}
}

// looked lets the Secrets be looked at that Ingresses name, where a change from one object to another, either of which may be nil, is about
// them. To look goes through all Ingresses.
func (s *storeSink) looked(before, now *store.Object) {
	switch s.feed.kind.name {
	case store.KindIngressClass:
		s.source.named.look()
	case store.KindIngress:
		if !nameAlike(before, now) {
			s.source.named.look()
		}
	}
}

// ingressSink feeds the store, and those who write the status of Ingresses.
type ingressSink struct{ storeSink }

func (s *ingressSink) replace(all []*item) {
	s.source.states.replace(s.feed.namespace, all)
	s.storeSink.replace(all)
}

func (s *ingressSink) set(i *item) {
	s.source.states.set(i.object.Key, i.ingress)
	s.storeSink.set(i)
}

func (s *ingressSink) remove(namespace, name string) {
	s.source.states.set(s.key(namespace, name), nil)
	s.storeSink.remove(namespace, name)
}

func objectsOf(all []*item) []*store.Object {
	objects := make([]*store.Object, len(all))
	for i, o := range all {
		objects[i] = o.object
	}
	return objects
}
