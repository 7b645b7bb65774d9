package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	netv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

const (
	eventRate    = 20 // a second, of all objects
	eventBurst   = 50
	objectBurst  = 25 // of one object
	objectRefill = 5 * time.Minute
	eventRenew   = 30 * time.Minute // API servers forget Events after an hour
	noteLongest  = 1024
	eventPause   = time.Minute // when they may not be written
)

// announcer writes an Event for each problem of an object, when it has lasted a while and, as long as it stays, before the API server
// forgets. The name of an Event follows from what it says, so that no replica says it twice.
type announcer struct {
	writer  *Writer
	queue   workqueue.TypedRateLimitingInterface[model.Key]
	limiter flowcontrol.RateLimiter

	mu      sync.Mutex
	known   map[model.Key]*trouble
	budgets map[model.Key]*budget
	refused time.Time // when writing was, the last time; zero: it is allowed
}

// budget is how many Events an object may still cause.
type budget struct {
	left float64
	at   time.Time
}

func newAnnouncer(w *Writer) *announcer {
	return &announcer{
		writer: w, limiter: flowcontrol.NewTokenBucketRateLimiter(eventRate, eventBurst),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[model.Key](time.Second, time.Minute)),
		known: map[model.Key]*trouble{}, budgets: map[model.Key]*budget{},
	}
}

// look asks for an object's problems to be looked at.
func (a *announcer) look(key model.Key) { a.queue.Add(key) }

func (a *announcer) run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		<-ctx.Done()
		a.queue.ShutDown()
	})
	for {
		key, ended := a.queue.Get()
		if ended {
			return
		}
		again, err := a.announce(ctx, key)
		switch {
		case err != nil:
			a.queue.AddRateLimited(key)
		case again > 0:
			a.queue.AddAfter(key, again)
		default:
			a.queue.Forget(key)
		}
		a.queue.Done(key)
	}
}

// announce writes the Events that are due about an object. again is when to look at it anew, if it must be.
func (a *announcer) announce(ctx context.Context, key model.Key) (again time.Duration, err error) {
	object, problems := a.writer.problemsOf(key)
	a.note(key, problems)
	if object == nil || object.UID == "" || len(problems) == 0 || !a.writer.speaksFor(object) {
		return 0, nil
	}
	again = eventRenew
	for _, p := range problems {
		wait := a.due(key, p)
		if wait == 0 {
			if err := a.limiter.Wait(ctx); err != nil {
				return 0, nil // the end
			}
			err := a.write(ctx, object, p)
			switch {
			case ctx.Err() != nil:
				return 0, nil
			case isRefusal(err):
				a.forbidden(err)
				return eventPause, nil
			case err != nil:
				return 0, err
			}
			wait = eventRenew
		}
		again = min(again, wait)
	}
	return again, nil
}

// due is how long to wait until a problem is told, or told again; 0: now.
func (a *announcer) due(key model.Key, p model.Problem) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.refused.IsZero() && time.Since(a.refused) < eventPause {
		return time.Until(a.refused.Add(eventPause))
	}
	if wait := a.known[key].wait(p, time.Now()); wait > 0 {
		return wait
	}
	b := a.budgets[key]
	if b == nil {
		b = &budget{left: objectBurst, at: time.Now()}
		a.budgets[key] = b
	}
	b.left, b.at = min(objectBurst, b.left+float64(time.Since(b.at))/float64(objectRefill)), time.Now()
	if b.left < 1 {
		return objectRefill
	}
	b.left--
	return 0
}

// note takes the problems that an object has now. One that has none may again cause as many Events as any.
func (a *announcer) note(key model.Key, problems []model.Problem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(problems) == 0 {
		delete(a.known, key)
		if b := a.budgets[key]; b != nil && b.left+float64(time.Since(b.at))/float64(objectRefill) >= objectBurst {
			delete(a.budgets, key)
		}
		return
	}
	if a.known[key] == nil {
		a.known[key] = newTrouble()
	}
	a.known[key].note(problems, time.Now())
}

// write creates the Event of a problem; one that is there already, by us or by the replica before us, is told that it goes on.
func (a *announcer) write(ctx context.Context, object *store.Object, p model.Problem) error {
	event := a.event(object, p)
	a.mu.Lock()
	count := a.known[object.Key].count(p) + 1
	a.mu.Unlock()
	_, err := a.writer.client.create(ctx, events(), event.Namespace, event)
	if apierrors.IsAlreadyExists(err) {
		count = max(count, 2) // those that go on have at least so much
		err = a.repeat(ctx, event, count)
	}
	switch {
	case apierrors.IsInvalid(err), apierrors.IsNotFound(err) && count > 1: // it can never be, or was forgotten just now
		a.writer.settings.Log.Debug("an Event was not taken", "object", object.Key.String(), "error", err)
	case err != nil:
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.refused.IsZero() {
		a.refused = time.Time{}
		a.writer.settings.Log.Info("Events can be written now")
	}
	a.known[object.Key].tell(p, count, time.Now())
	return nil
}

// repeat says that what an Event tells goes on.
func (a *announcer) repeat(ctx context.Context, event *eventsv1.Event, count int32) error {
	body, err := json.Marshal(map[string]any{"series": &eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(time.Now())}})
	if err != nil {
		return fmt.Errorf("encode an Event: %w", err)
	}
	_, err = a.writer.client.patch(ctx, events(), patch{namespace: event.Namespace, name: event.Name, manager: leasePrefix, body: body})
	return err
}

// forbidden stops all Events for a while.
func (a *announcer) forbidden(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused.IsZero() {
		a.writer.settings.Log.Warn("Events may not be written", "error", err, "mend", "grant create and patch on events of events.k8s.io")
	}
	a.refused = time.Now()
}

// event is the one that tells a problem of an object.
func (a *announcer) event(object *store.Object, p model.Problem) *eventsv1.Event {
	note := p.Message
	if p.Origin.Field != "" {
		note = p.Origin.Field + ": " + note
	}
	if p.Mend != "" {
		note += "; " + p.Mend
	}
	namespace := cmp.Or(object.Key.Namespace, metav1.NamespaceDefault)
	h := fnv.New64a()
	for _, part := range []string{object.UID, p.Reason, note} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	name := object.Key.Name
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: strings.TrimRight(name[:min(len(name), 200)], "-.") + fmt.Sprintf(".%016x", h.Sum64())},
		EventTime:           metav1.NewMicroTime(time.Now()),
		ReportingController: model.ControllerName,
		ReportingInstance:   clip(a.writer.settings.Identity, 128),
		Action:              "Translate",
		Reason:              cmp.Or(clip(p.Reason, 128), "Problem"),
		Regarding:           referenceTo(object),
		Note:                clip(note, noteLongest),
		Type:                corev1.EventTypeWarning,
	}
}

func referenceTo(object *store.Object) corev1.ObjectReference {
	r := corev1.ObjectReference{
		Kind: object.Key.Kind, Namespace: object.Key.Namespace, Name: object.Key.Name, UID: types.UID(object.UID), ResourceVersion: object.Version,
		APIVersion: "v1",
	}
	if object.Key.Kind == store.KindIngress {
		r.APIVersion = netv1.SchemeGroupVersion.String()
	}
	return r
}

// clip cuts text to so many bytes, between characters.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const dots = "..."
	cut := most - len(dots)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + dots
}

// problemsOf returns an object of ours, nil when it is none, and what is wrong with it. Of an Ingress that others serve, or nobody, there is
// nothing to be told on it.
func (w *Writer) problemsOf(key model.Key) (*store.Object, []model.Problem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.view.Object(key)
	if o == nil || o.Source != w.source.settings.Name {
		return nil, nil
	}
	e := w.report.Get(key)
	if e == nil || key.Kind == store.KindIngress && len(e.Owners) == 0 {
		return o, nil
	}
	return o, e.Problems
}

// speaksFor reports whether we are the replica that tells the problems of an object.
func (w *Writer) speaksFor(o *store.Object) bool {
	if len(w.outlets) == 0 {
		return false
	}
	for _, other := range w.outlets {
		if slices.Contains(other.publish.Classes, classOf(o.Value)) {
			return w.leads(other.leaseOf(classOf(o.Value)))
		}
	}
	return w.leads(w.outlets[0].leases()[0])
}
