package kube

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"sluice.dev/sluice/control/store"
)

const (
	leaseDuration = 15 * time.Second // after which others take it that has not been renewed
	leaseValid    = 10 * time.Second // after which we no longer count on it ourselves
	leaseRetry    = 2 * time.Second
	leasePrefix   = "sluice"
	longestName   = 100 // so that it can be a field manager too, which has 128 at most
)

var errIdle = errors.New("it does not take requests now")

// leaseName is the name of the Lease whose holder writes for a class, and of the field manager that it writes as.
func leaseName(class string) string {
	name := leasePrefix + "-" + class
	switch {
	case class == "":
		return leasePrefix
	case store.ValidName(name) && len(name) <= longestName:
		return name
	}
	h := fnv.New64a()
	h.Write([]byte(class))
	return fmt.Sprintf("%s-%016x", leasePrefix, h.Sum64())
}

// lease elects one of the replicas by a Lease object, in the way of client-go's leader election, whose Leases it understands: whoever
// renews it leads, and who sees it unchanged for its duration, by the own clock, may take it. client-go's package is not used since it
// brings in the clients of all API groups: 19 MB of program and 9 MB of memory.
type lease struct {
	writer *Writer
	client *client // without a limit on its rate
	name   string
	log    *slog.Logger
	wake   chan struct{}
	missed atomic.Bool // something was left unwritten since we did not lead

	// For the goroutine that runs only.
	held    *coordinationv1.Lease // as we wrote it last; nil: somebody else may hold it
	seen    coordinationv1.LeaseSpec
	seenAt  time.Time
	refused bool // and it has been said
	led     bool // and it has been said

	mu      sync.Mutex
	renewed time.Time // when we last asked for what was granted; zero: we do not lead
}

func newLease(w *Writer, name string) *lease {
	return &lease{writer: w, client: w.source.client, name: name, log: w.settings.Log.With("lease", w.namespace+"/"+name), wake: make(chan struct{}, 1)}
}

// look has the next round begin at once.
func (l *lease) look() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// leads reports whether we hold the Lease, and for long enough to write something.
func (l *lease) leads() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.renewed.IsZero() && time.Since(l.renewed) < leaseValid
}

// run takes part in the election until the context ends, and gives up what it holds.
func (l *lease) run(ctx context.Context) {
	refused := pause{refusedFirst, refusedMost}
	for ctx.Err() == nil {
		delay := wait.Jitter(leaseRetry, 0.2)
		if err := l.round(ctx); isRefusal(err) {
			l.say(err)
			delay = refused.next()
		} else if err == nil {
			l.say(nil)
			refused = pause{refusedFirst, refusedMost}
		}
		select {
		case <-ctx.Done():
		case <-l.wake:
		case <-time.After(delay):
		}
	}
	l.release(context.WithoutCancel(ctx))
}

// round tries once to get or to keep the Lease. A replica that serves nothing leaves it to others.
func (l *lease) round(ctx context.Context) error {
	if !l.writer.serves(l.name) {
		l.release(ctx)
		l.tell(errIdle)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, leaseValid/2)
	defer cancel()
	asked := time.Now()
	err := l.try(ctx)
	l.mu.Lock()
	switch {
	case l.held != nil && err == nil:
		l.renewed = asked
	case l.held == nil || time.Since(l.renewed) >= leaseValid:
		l.held, l.renewed = nil, time.Time{}
	}
	l.mu.Unlock()
	l.tell(err)
	return err
}

// tell says when this replica has begun to lead, or ceased. What was left unwritten meanwhile is looked at again.
func (l *lease) tell(err error) {
	leads, led := l.writer.leads(l.name), l.led
	l.led = leads
	switch {
	case leads && !led:
		l.log.Info("this replica writes status and Events now")
	case led && !leads:
		l.log.Info("this replica no longer writes status and Events", "error", err)
	}
	if leads && (!led || l.missed.Load()) {
		l.missed.Store(false)
		l.writer.reviewAll()
	}
}

// try sends what a round needs. l.held is nil afterwards when somebody else holds the Lease.
func (l *lease) try(ctx context.Context) error {
	namespace := l.writer.namespace
	if l.held != nil {
		err := l.write(ctx, l.held)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	got, err := l.client.get(ctx, leases(), namespace, l.name)
	switch {
	case apierrors.IsNotFound(err):
		return l.create(ctx)
	case err != nil:
		return err
	}
	now := got.(*coordinationv1.Lease)
	if l.taken(&now.Spec) {
		l.held = nil
		return nil
	}
	err = l.write(ctx, now)
	if apierrors.IsConflict(err) { // another replica was faster
		l.held = nil
		return nil
	}
	return err
}

// taken reports whether somebody else holds a Lease that has not run out.
func (l *lease) taken(spec *coordinationv1.LeaseSpec) bool {
	holder := value(spec.HolderIdentity)
	if holder == "" || holder == l.writer.settings.Identity {
		return false
	}
	if value(l.seen.HolderIdentity) != holder || !l.seen.RenewTime.Equal(spec.RenewTime) || value(l.seen.LeaseTransitions) != value(spec.LeaseTransitions) {
		l.seen, l.seenAt = *spec.DeepCopy(), time.Now()
	}
	return time.Since(l.seenAt) < time.Duration(value(spec.LeaseDurationSeconds))*time.Second
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func (l *lease) create(ctx context.Context) error {
	fresh := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.name, Namespace: l.writer.namespace}}
	l.claim(&fresh.Spec)
	made, err := l.client.create(ctx, leases(), fresh.Namespace, fresh)
	switch {
	case apierrors.IsAlreadyExists(err):
		l.held = nil
		return nil
	case err != nil:
		return err
	}
	l.held = made.(*coordinationv1.Lease)
	return nil
}

// write makes the Lease ours, or renews it.
func (l *lease) write(ctx context.Context, old *coordinationv1.Lease) error {
	next := old.DeepCopy()
	l.claim(&next.Spec)
	made, err := l.client.update(ctx, leases(), next.Namespace, next.Name, next)
	if err != nil {
		return err
	}
	l.held = made.(*coordinationv1.Lease)
	return nil
}

// claim fills in that we hold the Lease from now on, or go on to.
func (l *lease) claim(spec *coordinationv1.LeaseSpec) {
	now := metav1.NewMicroTime(time.Now())
	if me := l.writer.settings.Identity; value(spec.HolderIdentity) != me {
		transitions := value(spec.LeaseTransitions)
		if spec.HolderIdentity != nil {
			transitions++
		}
		spec.HolderIdentity, spec.AcquireTime, spec.LeaseTransitions = &me, &now, &transitions
	}
	seconds := int32(leaseDuration / time.Second)
	spec.RenewTime, spec.LeaseDurationSeconds = &now, &seconds
}

// release lets another replica take the Lease at once.
func (l *lease) release(ctx context.Context) {
	if !l.leads() {
		return
	}
	l.mu.Lock()
	l.renewed = time.Time{}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, leaveWithin)
	defer cancel()
	last := l.held.DeepCopy()
	l.held = nil
	nobody, second := "", int32(1)
	last.Spec.HolderIdentity, last.Spec.LeaseDurationSeconds = &nobody, &second
	if _, err := l.client.update(ctx, leases(), last.Namespace, last.Name, last); err != nil {
		l.log.Debug("the Lease was not given up; it runs out by itself", "error", err)
	}
}

// say tells once that the Lease may not be used, and once more that it may.
func (l *lease) say(err error) {
	if was := l.refused; err != nil && !was {
		l.log.Warn("status and Events are not written, since the Lease that elects the writer may not be used", "error", err, "mend", "grant get, create and update on leases")
	} else if err == nil && was {
		l.log.Info("the Lease may be used now")
	}
	l.refused = err != nil
}

// leads reports whether we hold the Lease of that name, and serve what it is about.
func (w *Writer) leads(name string) bool {
	l := w.lease(name)
	if l == nil {
		return false
	}
	if l.leads() && w.serves(name) {
		return true
	}
	l.missed.Store(true)
	return false
}

// serves reports whether this replica serves a controller whose status is written under the Lease of that name.
func (w *Writer) serves(name string) bool {
	select {
	case <-w.reported:
	default:
		return false
	}
	return slices.ContainsFunc(w.outlets, func(o *outlet) bool { return slices.Contains(o.leases(), name) && w.serving(o) })
}

func (w *Writer) serving(o *outlet) bool {
	return w.settings.Serving == nil || w.settings.Serving(o.publish.Controller)
}

func (w *Writer) lease(name string) *lease {
	for _, l := range w.leases {
		if l.name == name {
			return l
		}
	}
	return nil
}
