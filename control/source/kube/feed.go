package kube

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// sink takes what a feed reads.
type sink interface {
	replace(all []*item)
	set(i *item)
	remove(namespace, name string)
}

// feed reads one kind in one namespace, or one object, and watches it.
type feed struct {
	kind      kind
	namespace string // "" is all
	name      string // of the one object; "" is all
	client    *client
	convert   cache.TransformFunc
	sink      sink
	health    *health

	// For the reflector's goroutine only.
	version string             // the newest that was heard of
	relist  context.CancelFunc // ends the present watch
	refused error              // why a stream that was to begin with a list did not, and a list will not be had either

	mu    sync.Mutex
	state feedState
	first chan struct{} // closed when the feed is read, or cannot be read and is not needed
}

// feedState is what is known about a feed.
type feedState struct {
	read  bool      // everything there was has been read, once
	open  bool      // a watch is open
	since time.Time // when the last watch ended, or the feed began
	err   error     // of the last request
}

func newFeed(c *client, h *health, k kind) *feed {
	f := &feed{kind: k, client: c, health: h, first: make(chan struct{})}
	f.state.since = time.Now()
	h.add(f)
	return f
}

const (
	retryFirst    = 200 * time.Millisecond
	retryMost     = time.Second // and as much again by chance
	refusedFirst  = time.Second
	refusedMost   = 30 * time.Second
	steadyAfter   = 10 * time.Second // a watch that lived so long makes retries begin anew
	serverDelays  = 10 * time.Second // a server that asks for more patience gets so much
	backoffFactor = 2
	watchShortest = 120 // seconds; twice as many at most
	answerWithin  = 20 * time.Second
)

var errHung = errors.New("the API server took the request and does not answer")

// run reads and watches until the context ends.
func (f *feed) run(ctx context.Context) {
	reflector := cache.NewReflectorWithOptions(&cache.ListWatch{ListWithContextFunc: f.list, WatchFuncWithContext: f.watch}, f.kind.resource.one(), f, cache.ReflectorOptions{
		Name: f.String(),
		// Between two watches, when nothing has to be listed again.
		Backoff: &wait.Backoff{Duration: retryFirst, Cap: retryMost, Steps: 10, Factor: backoffFactor, Jitter: 1},
	})
	retry, refused := pause{retryFirst, retryMost}, pause{refusedFirst, refusedMost}
	for ctx.Err() == nil {
		began := time.Now()
		once, cancel := context.WithCancel(ctx)
		f.relist = cancel
		err := reflector.ListAndWatchWithContext(once)
		cancel()
		if time.Since(began) > steadyAfter && !isRefusal(err) {
			retry, refused = pause{retryFirst, retryMost}, pause{refusedFirst, refusedMost}
		}
		delay := retry.next()
		if isRefusal(err) {
			delay = refused.next()
			if f.name != "" {
				delay = max(delay, f.health.namedPause())
			}
		} else if seconds, asks := apierrors.SuggestsClientDelay(err); asks {
			delay = max(delay, min(time.Duration(seconds)*time.Second, serverDelays))
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
}

// pause grows from try to try.
type pause struct{ duration, most time.Duration }

func (p *pause) next() time.Duration {
	now := p.duration
	p.duration = min(p.duration*backoffFactor, p.most)
	return wait.Jitter(now, 1)
}

// isRefusal reports whether asking again soon is of no use: the kind may not be read, or is not there.
func isRefusal(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

func (f *feed) scoped(options metav1.ListOptions) metav1.ListOptions {
	options.FieldSelector = f.kind.selector
	if f.name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, f.name).String()
	}
	return options
}

// list lists for the reflector. What a stream has just asked for in vain is not asked for a second time.
func (f *feed) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := f.refused; err != nil {
		f.refused = nil
		return nil, err
	}
	list, err := f.client.list(ctx, f.kind.resource, f.namespace, f.scoped(options))
	f.asked(ctx, err)
	return list, err
}

// watch watches for the reflector. A watch that hangs, at its beginning or later, cannot be told from one without changes; so none lives
// long.
func (f *feed) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	seconds := watchShortest + rand.Int64N(watchShortest)
	options.TimeoutSeconds = &seconds
	once, cancel := context.WithCancelCause(ctx)
	hung := time.AfterFunc(answerWithin, func() { cancel(errHung) })
	w, err := f.client.watch(once, f.kind.resource, f.namespace, f.scoped(options))
	if err != nil && errors.Is(context.Cause(once), errHung) {
		err = errHung
	}
	stream := options.SendInitialEvents != nil
	if stream && (isRefusal(err) || errors.Is(err, errHung)) {
		f.refused = err
	}
	if !stream || !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) { // old servers cannot begin a watch with a list
		f.asked(ctx, err)
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	hung.Reset(time.Duration(seconds)*time.Second + answerWithin)
	f.opened(true)
	return &watching{Interface: w, end: sync.OnceFunc(func() {
		f.opened(false)
		hung.Stop()
		cancel(nil)
	})}, nil
}

// watching tells when the watch ends.
type watching struct {
	watch.Interface
	end func()
}

// Stop ends the watch.
func (w *watching) Stop() {
	w.end()
	w.Interface.Stop()
}

// asked notes how a request went.
func (f *feed) asked(ctx context.Context, err error) {
	if err != nil && (ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)) {
		return
	}
	f.mu.Lock()
	f.state.err = err
	if isRefusal(err) && f.kind.cost != "" {
		f.arrive()
	}
	f.mu.Unlock()
	f.health.heard(f)
}

func (f *feed) opened(open bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.open, f.state.since = open, time.Now()
}

// arrive lets those go on who wait for the first objects. f.mu is held.
func (f *feed) arrive() {
	select {
	case <-f.first:
	default:
		close(f.first)
	}
}

func (f *feed) now() feedState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// Transformer is what the reflector puts objects through.
func (f *feed) Transformer() cache.TransformFunc { return f.convert }

// Replace takes all objects that there are.
func (f *feed) Replace(list []any, version string) error {
	items := make([]*item, 0, len(list))
	for _, o := range list {
		made, err := f.convert(o)
		if err != nil {
			return err
		}
		if i, ok := made.(*item); ok {
			items = append(items, i)
		}
	}
	f.version = version
	f.sink.replace(items)
	f.mu.Lock()
	f.state.read = true
	f.arrive()
	f.mu.Unlock()
	return nil
}

// Add takes an object that is new.
func (f *feed) Add(o any) error { return f.event(o, false) }

// Update takes an object that changed.
func (f *feed) Update(o any) error { return f.event(o, false) }

// Delete takes an object that is gone.
func (f *feed) Delete(o any) error { return f.event(o, true) }

// Resync is never asked for.
func (f *feed) Resync() error { return nil }

// event takes one change. The versions of a watch only grow: what is told twice is no news, and after what comes too late everything
// is listed again.
func (f *feed) event(o any, gone bool) error {
	m, err := meta.Accessor(o)
	if err != nil {
		return fmt.Errorf("read a change of %s: %w", f, err)
	}
	order, err := resourceversion.CompareResourceVersion(m.GetResourceVersion(), f.version)
	switch {
	case err != nil: // versions that cannot be ordered
	case order == 0:
		return nil
	case order < 0:
		f.relist()
		return nil
	}
	f.version = m.GetResourceVersion()
	if gone {
		f.sink.remove(m.GetNamespace(), m.GetName())
		return nil
	}
	made, err := f.convert(o)
	if err != nil {
		return err
	}
	if i, ok := made.(*item); ok {
		f.sink.set(i)
	}
	return nil
}

// String names what the feed reads.
func (f *feed) String() string {
	switch {
	case f.name != "":
		return f.kind.name + " " + f.namespace + "/" + f.name
	case f.kind.global:
		return f.kind.plural()
	case f.namespace == "":
		return f.kind.plural() + " of all namespaces"
	}
	return f.kind.plural() + " of namespace " + f.namespace
}
