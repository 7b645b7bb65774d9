package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	netv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// WriterSettings are those of a Writer.
type WriterSettings struct {
	Source   *Source
	Identity string    // of this process among its replicas
	Publish  []Publish // one for each controller that serves what the Source reads
	Log      *slog.Logger
	Serving  func(controller string) bool // whether this process takes the requests of a controller; nil: always
}

// Publish says where clients find what a controller serves.
type Publish struct {
	Controller string   // as owners in a status.Report are named
	Classes    []string // that it serves by name; empty: every class whose IngressClass names us
	Service    string   // namespace/name of the Service whose addresses are the controller's; "" is none
	Addresses  []string // IP addresses and host names beside those
}

// Writer writes into the API what is to be said about its objects: the addresses of Ingresses and Events for Problems. It does so only
// while it leads its replicas, which it does only while it serves itself, only what has changed, and after the routes that it speaks of
// are live.
type Writer struct {
	settings  WriterSettings
	namespace string // that is ours: of the Leases
	source    *Source
	client    *client
	outlets   []*outlet
	leases    []*lease
	events    *announcer
	queue     workqueue.TypedRateLimitingInterface[model.Key]
	reported  chan struct{} // closed with the first report

	mu      sync.Mutex
	report  *status.Report // nil until there is one
	view    store.View     // that the report is about
	waiting map[model.Key]bool
	writes  map[model.Key]*write
	refused time.Time // when writing was, the last time; zero: it is allowed
}

// write is the last one to an Ingress.
type write struct {
	uid       string
	addresses []address
	at        time.Time
	again     int // how often the same was written, since somebody else keeps changing it
}

const (
	writers       = 8
	writeBurst    = 50
	fightFirst    = time.Second
	fightMost     = 5 * time.Minute
	fightForgiven = 10 * time.Minute
	pauseRefused  = time.Minute
	leaveWithin   = 2 * time.Second // to give the Leases up at the end
)

// NewWriter makes a Writer; Run starts it.
func NewWriter(settings WriterSettings) (*Writer, error) {
	server := settings.Source.settings.Server
	c, err := newClient(server.config, flowcontrol.NewTokenBucketRateLimiter(writeRate, writeBurst))
	if err != nil {
		return nil, err
	}
	w := &Writer{
		settings: settings, namespace: server.namespace, source: settings.Source, client: c, waiting: map[model.Key]bool{}, writes: map[model.Key]*write{},
		reported: make(chan struct{}),
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[model.Key](retryFirst, 30*time.Second)),
	}
	for _, p := range settings.Publish {
		o, err := newOutlet(w, p)
		if err != nil {
			return nil, err
		}
		w.outlets = append(w.outlets, o)
		for _, name := range o.leases() {
			if w.lease(name) == nil {
				w.leases = append(w.leases, newLease(w, name))
			}
		}
	}
	w.events = newAnnouncer(w)
	return w, nil
}

// Run writes until the context ends. It takes nothing back then: another replica goes on, or this one when it is back.
func (w *Writer) Run(ctx context.Context) {
	ctx = quiet(ctx, w.settings.Log)
	w.source.states.follow(w.queue.Add)
	leading, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	left := make(chan struct{})
	var electing, all sync.WaitGroup
	for _, l := range w.leases {
		electing.Go(func() { l.run(leading) })
	}
	go func() {
		electing.Wait()
		close(left)
	}()
	for _, o := range w.outlets {
		if o.feed != nil {
			all.Go(func() { o.feed.run(ctx) })
		}
	}
	all.Go(func() { w.events.run(ctx) })
	for range writers {
		all.Go(func() { w.work(ctx) })
	}
	<-ctx.Done()
	w.queue.ShutDown()
	all.Wait()
	leave()
	select {
	case <-left:
	case <-time.After(leaveWithin):
	}
}

// Report takes what is to be said about all objects, of which view was translated and is live now.
func (w *Writer) Report(r *status.Report, view store.View) {
	if r == nil {
		r = (*status.Report)(nil).Update(nil, nil)
	}
	w.mu.Lock()
	before := w.report
	w.report, w.view = r, view
	waiting := w.waiting
	w.waiting = map[model.Key]bool{}
	w.mu.Unlock()
	if before == nil { // it says nothing of those that are no longer ours
		close(w.reported)
		for _, l := range w.leases {
			l.look()
		}
		w.reviewAll()
		return
	}
	for key := range waiting {
		w.queue.Add(key)
	}
	for was, is := range status.Diff(before, r) {
		e := is
		if e == nil {
			e = was
		}
		w.events.look(e.Key)
		if e.Key.Kind == store.KindIngress {
			w.queue.Add(e.Key)
		}
	}
}

// reviewAll looks at every Ingress again, and at every problem.
func (w *Writer) reviewAll() {
	w.mu.Lock()
	r := w.report
	w.mu.Unlock()
	if r == nil {
		return
	}
	for e := range r.All() {
		w.events.look(e.Key)
	}
	w.source.states.each(w.queue.Add)
}

func (w *Writer) work(ctx context.Context) {
	for {
		key, ended := w.queue.Get()
		if ended {
			return
		}
		again, err := w.write(ctx, key)
		switch {
		case err != nil:
			w.queue.AddRateLimited(key)
		case again > 0:
			w.queue.AddAfter(key, again)
		default:
			w.queue.Forget(key)
		}
		w.queue.Done(key)
	}
}

// write brings the status of an Ingress up to date. again is when to look at it anew, if it must be.
func (w *Writer) write(ctx context.Context, key model.Key) (again time.Duration, err error) {
	state := w.source.states.get(key)
	if state == nil {
		w.forget(key)
		return 0, nil
	}
	want, manager, ours := w.wants(key, state)
	if !ours || slices.Equal(want, tidy(slices.Clone(state.addresses))) {
		return 0, nil
	}
	if wait := w.patience(key, state, want); wait > 0 {
		return wait, nil
	}
	body, err := statusBody(state.version, want)
	if err != nil {
		return 0, err
	}
	made, err := w.client.patch(ctx, ingresses(), patch{key.Namespace, key.Name, "status", manager, body})
	switch {
	case err == nil:
		w.wrote(key, state, want)
		w.source.states.written(made.(*netv1.Ingress), newer)
		return 0, nil
	case ctx.Err() != nil, apierrors.IsNotFound(err):
		return 0, nil
	case apierrors.IsForbidden(err):
		w.forbidden(err)
		return pauseRefused, nil
	case apierrors.IsConflict(err):
		return 0, err // what is newer comes by the watch
	}
	w.settings.Log.Debug("the status of an Ingress was not written", "object", key.String(), "error", err)
	return 0, err
}

// newer reports whether version a comes after b; versions that cannot be ordered do.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}

// wants returns what the status of an Ingress must be, and in whose name it is written; ours is false when that is not for us to say,
// or not known.
func (w *Writer) wants(key model.Key, state *ingressState) (want []address, manager string, ours bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.source.settings.Store.View().Object(key)
	if w.report == nil || now == nil || now.Source != w.source.settings.Name {
		return nil, "", false
	}
	if o := w.view.Object(key); o == nil || o.Value != now.Value {
		w.waiting[key] = true // the report on what it is now is yet to come
		return nil, "", false
	}
	var owners []string
	if e := w.report.Get(key); e != nil {
		owners = e.Owners
	}
	if len(owners) == 0 { // no more
		return nil, state.manager, state.manager != "" && w.leads(state.manager)
	}
	class := classOf(now.Value)
	for _, o := range w.outlets {
		if slices.Contains(owners, o.publish.Controller) {
			known, name := o.addresses(), o.leaseOf(class)
			if len(known) == 0 {
				return nil, "", false
			}
			if !w.serving(o) {
				w.lease(name).missed.Store(true)
				return nil, "", false
			}
			want = append(want, known...)
			if w.leads(name) {
				manager = name
			}
		}
	}
	return tidy(want), manager, manager != ""
}

func classOf(value any) string {
	in, ok := value.(*store.Ingress)
	if !ok {
		return ""
	}
	if name := in.Annotations[store.ClassAnnotation]; name != "" {
		return name
	}
	return in.Class
}

func statusBody(version string, want []address) ([]byte, error) {
	var list []map[string]string // nil takes the list away
	for _, a := range want {
		at := map[string]string{}
		if a.IP != "" {
			at["ip"] = a.IP
		}
		if a.Hostname != "" {
			at["hostname"] = a.Hostname
		}
		list = append(list, at)
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": version},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": list}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode a status: %w", err)
	}
	return body, nil
}

// patience is how long to wait before writing: where it was forbidden, and, ever longer, where somebody else writes over it.
func (w *Writer) patience(key model.Key, state *ingressState, want []address) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.refused.IsZero() && time.Since(w.refused) < pauseRefused {
		return time.Until(w.refused.Add(pauseRefused))
	}
	last := w.writes[key]
	if last == nil || last.again == 0 || last.uid != state.uid || !slices.Equal(last.addresses, want) {
		return 0
	}
	return time.Until(last.at.Add(min(fightFirst<<min(last.again, 16), fightMost)))
}

func (w *Writer) wrote(key model.Key, state *ingressState, want []address) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.refused.IsZero() {
		w.refused = time.Time{}
		w.settings.Log.Info("the status of Ingresses can be written now")
	}
	last := w.writes[key]
	fresh := &write{uid: state.uid, addresses: want, at: time.Now()}
	if last != nil && last.uid == state.uid && slices.Equal(last.addresses, want) && time.Since(last.at) < fightForgiven {
		if fresh.again = last.again + 1; fresh.again == 3 {
			w.settings.Log.Warn("another program keeps changing the status of an Ingress of ours", "object", key.String(), "mend", "let only one controller serve its class")
		}
	}
	w.writes[key] = fresh
}

func (w *Writer) forget(key model.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.writes, key)
	delete(w.waiting, key)
}

// forbidden stops all writing for a while.
func (w *Writer) forbidden(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refused.IsZero() {
		w.settings.Log.Warn("the status of Ingresses may not be written", "error", err, "mend", "grant patch on ingresses/status")
	}
	w.refused = time.Now()
}
