package scale

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// order of the Ingresses: those that requests go to come first.
func (l Load) order() []int {
	var first, rest []int
	for i := range l.Ingresses {
		if l.busy(i) {
			first = append(first, i)
		} else {
			rest = append(rest, i)
		}
	}
	return append(first, rest...)
}

// measureCreate makes all objects; the last half of the Ingresses as fast as the API server takes them.
func (w *world) measureCreate(ctx context.Context) error {
	seen, err := w.watchStatus(ctx)
	if err != nil {
		return err
	}
	defer seen.stop()
	order := w.Load.order()
	half := len(order) - w.Load.Ingresses/2
	if err := w.createBase(ctx, order[:half]); err != nil {
		return err
	}
	if err := seen.wait(ctx, half, 5*time.Minute); err != nil {
		return err
	}
	mass := order[half:]
	var made, live time.Time
	took, err := w.during(ctx, "while many Ingresses are created", func(ctx context.Context) error {
		took, err := createAll(ctx, w.writer, len(mass), func(i int) *netv1.Ingress { return w.Load.ingress(mass[i], false) })
		if err != nil {
			return err
		}
		made = time.Now()
		w.say("%d Ingresses created in %s, %.0f a second; %d of all statuses are written", len(mass), short(took), float64(len(mass))/took.Seconds(), seen.count())
		if live, _, err = w.allLive(ctx, mass[max(0, len(mass)-lastOnes):]); err != nil {
			return err
		}
		last, late, err := w.allLive(ctx, mass)
		if err != nil {
			return err
		}
		w.say("the last %d live %s after the last was created; of all, %d were not when they were first asked for", lastOnes, short(live.Sub(made)), late)
		if late > 0 {
			live = last
		}
		return seen.wait(ctx, len(order), 5*time.Minute)
	})
	if err != nil {
		return err
	}
	w.report.atMost(Row{
		Figure: fmt.Sprintf("last of %d Ingresses created → all live", len(mass)),
		Method: fmt.Sprintf("created with %d requests at once; the last %d are asked for until 200, then all: the bar counts until the last that was not live when first asked", w.Writers, lastOnes),
		Peers:  "ingress-nginx 1,000 at once 8–10 min; NGF 150 resources 126 s; kgateway 1,000 routes 12 s, Istio 2 s, Cilium 1 s, Traefik 180 s",
	}, live.Sub(made), 2*time.Second)
	w.report.atMost(Row{Figure: fmt.Sprintf("last of %d Ingresses created → all statuses", len(mass)), Method: "a watch sees the address in each"}, seen.last().Sub(made), 30*time.Second)
	w.latency("while Ingresses are created as fast as can be", took)
	return nil
}

func (w *world) createBase(ctx context.Context, ingresses []int) error {
	l := w.Load
	for _, step := range []struct {
		what string
		make func() (time.Duration, error)
		n    int
	}{
		{"Secrets", func() (time.Duration, error) {
			return createAll(ctx, w.writer, l.Certificates, func(c int) *corev1.Secret { return newSecret(l.namespace(c), secretName(c), w.pairs[2*c]) })
		}, l.Certificates},
		{"Services", func() (time.Duration, error) {
			return createAll(ctx, w.writer, l.Services, func(s int) *corev1.Service { return l.serviceObject(s, false) })
		}, l.Services},
		{"EndpointSlices", func() (time.Duration, error) {
			return createAll(ctx, w.writer, l.Services, func(s int) *discoveryv1.EndpointSlice { return l.slice(s, false) })
		}, l.Services},
		{"Ingresses", func() (time.Duration, error) {
			return createAll(ctx, w.writer, len(ingresses), func(i int) *netv1.Ingress { return l.ingress(ingresses[i], false) })
		}, len(ingresses)},
	} {
		took, err := step.make()
		if err != nil {
			return fmt.Errorf("create %s: %w", step.what, err)
		}
		w.say("%d %s created in %s", step.n, step.what, short(took))
	}
	_, _, err := w.allLive(ctx, ingresses)
	return err
}

// lastOnes is how many of the last that were created are asked for first.
const lastOnes = 50

// allLive asks for each Ingress until it answers 200, the last first. It returns when the last one did that did not at once, or, when all
// did at once, when all had been asked; and how many did not.
func (w *world) allLive(ctx context.Context, ingresses []int) (last time.Time, late int, err error) {
	p := &pool{address: httpAddress}
	defer p.close()
	var mu sync.Mutex
	asker := &writer{workers: 8}
	deadline := time.Now().Add(time.Minute)
	err = asker.each(ctx, len(ingresses), func(ctx context.Context, n int) error {
		i := ingresses[len(ingresses)-1-n]
		host, path := hostName(w.Load.hostOf(i)), w.Load.path(i)
		for first := true; ; first = false {
			a, err := p.get(ctx, host, path, true)
			if err != nil {
				return fmt.Errorf("ask for %s%s: %w", host, path, err)
			}
			// Until it is there, the Ingress for all of the host answers for it.
			if a.status == http.StatusOK && w.Load.owner(a.backend) == w.Load.service(i) {
				if !first {
					mu.Lock()
					last = time.Now()
					mu.Unlock()
				}
				return nil
			}
			if a.status != http.StatusOK && a.status != http.StatusNotFound {
				w.counts.wrong("%s%s, just created: %s", host, path, a)
			}
			if first {
				mu.Lock()
				late++
				mu.Unlock()
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s%s is not live after a minute: %s", host, path, a)
			}
			rest(ctx, time.Millisecond)
		}
	})
	if late == 0 {
		last = time.Now()
	}
	return last, late, err
}

// statuses knows which Ingresses have an address in their status.
type statuses struct {
	end  context.CancelFunc
	mu   sync.Mutex
	all  map[string]bool
	when time.Time
}

// watchStatus follows the status of all Ingresses.
func (w *world) watchStatus(ctx context.Context) (*statuses, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &statuses{end: cancel, all: map[string]bool{}}
	api := w.client.NetworkingV1().Ingresses("")
	now, err := api.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		cancel()
		return nil, err
	}
	// The API server closes watches that it finds slow, which on a busy machine they are.
	events, err := watchtools.NewRetryWatcherWithContext(ctx, now.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: api.Watch})
	if err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer events.Stop()
		for e := range events.ResultChan() {
			in, ok := e.Object.(*netv1.Ingress)
			if !ok {
				continue
			}
			s.mu.Lock()
			name := in.Namespace + "/" + in.Name
			switch has := e.Type != watch.Deleted && len(in.Status.LoadBalancer.Ingress) > 0; {
			case has && !s.all[name]:
				s.all[name], s.when = true, time.Now()
			case !has:
				delete(s.all, name)
			}
			s.mu.Unlock()
		}
	}()
	return s, nil
}

func (s *statuses) stop() { s.end() }

func (s *statuses) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// last is when the last one was seen.
func (s *statuses) last() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.when
}

func (s *statuses) wait(ctx context.Context, n int, limit time.Duration) error {
	for deadline := time.Now().Add(limit); s.count() < n; {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("%d of %d Ingresses have a status after %s", s.count(), n, limit)
		}
		rest(ctx, 20*time.Millisecond)
	}
	return nil
}
