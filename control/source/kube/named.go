package kube

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

const (
	lookPause = 200 * time.Millisecond // how long the Ingresses are left alone after they were looked through
	lookAgain = time.Minute            // how often they are although nothing is known to ask for it, such as a file that hid a Secret and is gone
)

// named reads Secrets one by one: those that an Ingress of ours names and that the feeds of TLS Secrets do not bring. That keeps
// every other Secret of the cluster unread.
type named struct {
	source *Source
	wake   chan struct{}
	first  chan struct{} // closed when the Secrets named at the start have been read
	feeds  map[string]*namedFeed

	mu     sync.Mutex
	owners map[model.Key]*feed // of the Secrets in the store that one of the feeds here has brought
}

type namedFeed struct {
	feed *feed
	end  context.CancelFunc
	done chan struct{}
}

func newNamed(s *Source) *named {
	return &named{source: s, wake: make(chan struct{}, 1), first: make(chan struct{}), feeds: map[string]*namedFeed{}, owners: map[model.Key]*feed{}}
}

// look asks for the Ingresses to be looked through.
func (n *named) look() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// run reads what is named until the context ends.
func (n *named) run(ctx context.Context) {
	defer func() {
		for _, f := range n.feeds { // what they brought stays
			<-f.done
		}
	}()
	n.settle(ctx)
	for _, f := range n.feeds {
		select {
		case <-f.feed.first:
		case <-ctx.Done():
			return
		}
	}
	close(n.first)
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
			n.settle(ctx)
		case <-time.After(lookAgain):
			n.settle(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookPause):
		}
	}
}

// settle starts and ends feeds as the Ingresses ask for.
func (n *named) settle(ctx context.Context) {
	wanted := n.wanted()
	for path := range n.feeds {
		if _, found := wanted[path]; !found {
			n.stop(path)
		}
	}
	k := kind{name: store.KindSecret, resource: secrets(), cost: "hosts whose certificates they hold show the default certificate"}
	for path, key := range wanted {
		if n.feeds[path] != nil {
			continue
		}
		f := &namedFeed{feed: n.source.feed(k, key.Namespace, key.Name), done: make(chan struct{})}
		var once context.Context
		once, f.end = context.WithCancel(ctx)
		n.feeds[path] = f
		go func() {
			defer close(f.done)
			f.feed.run(once)
		}()
	}
}

// nameAlike reports whether two Ingresses, either of which may be nil, name the same Secrets for the same controllers.
func nameAlike(a, b *store.Object) bool {
	one, other := tlsOf(a), tlsOf(b)
	if len(one.TLS) == 0 && len(other.TLS) == 0 {
		return true
	}
	return slices.EqualFunc(one.TLS, other.TLS, func(x, y store.TLS) bool { return x.Secret == y.Secret }) &&
		one.HasClass == other.HasClass && one.Class == other.Class && maps.Equal(one.Annotations, other.Annotations)
}

func tlsOf(o *store.Object) *store.Ingress {
	if o != nil {
		if in, ok := o.Value.(*store.Ingress); ok {
			return in
		}
	}
	return &store.Ingress{}
}

// stop ends a feed, and takes away what it brought.
func (n *named) stop(path string) {
	f := n.feeds[path]
	delete(n.feeds, path)
	f.end()
	<-f.done
	n.source.health.remove(f.feed)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drop(secretKey(f.feed.namespace, f.feed.name), f.feed)
}

// drop removes a Secret that the feed has brought. n.mu is held.
func (n *named) drop(key model.Key, f *feed) {
	if n.owners[key] == f {
		delete(n.owners, key)
		n.source.settings.Store.Apply(n.source.settings.Name, nil, []model.Key{key})
	}
}

// wanted are the Secrets that must be read one by one.
func (n *named) wanted() map[string]model.Key {
	view := n.source.settings.Store.View()
	owns := func(*store.Object, *store.Ingress) bool { return true }
	if n.source.settings.Owns != nil {
		owns = n.source.settings.Owns(view)
	}
	wanted := map[string]model.Key{}
	want := func(key model.Key) {
		if !n.brought(view, key) {
			wanted[key.Path()] = key
		}
	}
	for _, key := range n.source.settings.Secrets {
		want(secretKey(key.Namespace, key.Name))
	}
	for o, in := range store.List[*store.Ingress](view, store.KindIngress) {
		if o.Source != n.source.settings.Name || len(in.TLS) == 0 || !owns(o, in) {
			continue
		}
		for i := range in.TLS {
			if name := in.TLS[i].Secret; store.ValidName(name) {
				want(secretKey(o.Key.Namespace, name))
			}
		}
	}
	return wanted
}

// brought reports whether the feeds of TLS Secrets bring a Secret.
func (n *named) brought(view store.View, key model.Key) bool {
	o := view.Object(key)
	if o == nil || o.Source != n.source.settings.Name {
		return o != nil // another source has the say
	}
	n.mu.Lock()
	owned := n.owners[key] != nil
	n.mu.Unlock()
	return !owned && n.watchesAll(key.Namespace)
}

// watchesAll reports whether the TLS Secrets of a namespace can be read.
func (n *named) watchesAll(namespace string) bool {
	return slices.ContainsFunc(n.source.feeds, func(f *feed) bool {
		return f.kind.name == store.KindSecret && (f.namespace == "" || f.namespace == namespace) && !isRefusal(f.now().err)
	})
}

func secretKey(namespace, name string) model.Key {
	return model.Key{Kind: store.KindSecret, Namespace: namespace, Name: name}
}

// secretSink feeds the store with Secrets. A Secret may be deleted and made anew with another type; then it goes from one kind of feed
// to the other, and whatever the order of what they hear, the last one that has it counts.
type secretSink struct {
	named *named
	feed  *feed
}

func (s *secretSink) replace(all []*item) {
	if s.feed.name != "" {
		if len(all) == 0 {
			s.remove(s.feed.namespace, s.feed.name)
			return
		}
		s.set(all[0])
		return
	}
	n := s.named
	n.mu.Lock()
	for _, i := range all {
		delete(n.owners, i.object.Key)
	}
	n.source.settings.Store.ReplaceKind(n.source.settings.Name, store.KindSecret, func(o *store.Object) bool {
		return (s.feed.namespace == "" || o.Key.Namespace == s.feed.namespace) && n.owners[o.Key] == nil
	}, objectsOf(all))
	n.mu.Unlock()
	n.look()
}

func (s *secretSink) set(i *item) {
	n, key := s.named, i.object.Key
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case s.feed.name == "":
		if n.owners[key] != nil || n.source.settings.Store.View().Object(key) == nil {
			defer n.look() // it is no longer one of those that are read one by one
		}
		delete(n.owners, key)
	case i.object.Value.(*store.Secret).Type == string(corev1.SecretTypeTLS) && n.watchesAll(key.Namespace):
		return // it comes from there
	default:
		n.owners[key] = s.feed
	}
	n.source.settings.Store.Apply(n.source.settings.Name, []*store.Object{i.object}, nil)
}

func (s *secretSink) remove(namespace, name string) {
	n, key := s.named, secretKey(namespace, name)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case s.feed.name != "":
		n.drop(key, s.feed)
	case n.owners[key] == nil:
		n.source.settings.Store.Apply(n.source.settings.Name, nil, []model.Key{key})
		n.look()
	}
}
