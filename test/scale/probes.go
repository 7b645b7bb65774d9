package scale

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	netv1 "k8s.io/api/networking/v1"
)

const (
	pollEvery  = time.Millisecond
	shakeEvery = 5 * time.Millisecond
	routeEvery = 250 * time.Millisecond
	flipEvery  = 250 * time.Millisecond
	turnEvery  = 500 * time.Millisecond
	seenWithin = 20 * time.Second
)

// samplesOf gathers how long something took.
type samplesOf struct {
	mu   sync.Mutex
	took []time.Duration
}

func (s *samplesOf) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, max(0, d))
}

// measureProbes changes objects, sends requests, and looks closely at single changes.
func (w *world) measureProbes(ctx context.Context) error {
	routes, endpoints, secrets := &samplesOf{}, &samplesOf{}, &samplesOf{}
	probe, err := w.makeProbe(ctx)
	if err != nil {
		return err
	}
	took, err := w.during(ctx, "while objects change and are looked at", func(ctx context.Context) error {
		_, err := w.changing(ctx, "changes, requests and probes", func(ctx context.Context) error {
			return w.probeAll(ctx, probe, routes, endpoints, secrets)
		})
		return err
	})
	if err != nil {
		return err
	}
	how := func(what string, s *samplesOf, every time.Duration) string {
		return fmt.Sprintf("%s every %s from before the write on, whether answers come or not; from when the write is answered; %d of them, at %d changes a second",
			what, every, len(s.took), w.Changes)
	}
	w.report.atMost(Row{Figure: "Ingress acknowledged → first 200, p50", Method: how("asked for", routes, pollEvery)}, quantile(routes.took, .5), 20*time.Millisecond)
	w.report.atMost(Row{
		Figure: "Ingress acknowledged → first 200, p99", Method: "longest " + short(quantile(routes.took, 1)),
		Peers: "under 5,000 routes and changes, mean: agentgateway 30 ms, Istio 375 ms, Envoy Gateway 2.0 s, NGF more than 5 min",
	}, quantile(routes.took, .99), 100*time.Millisecond)
	w.report.atMost(Row{
		Figure: "endpoint acknowledged → used, the other unused, p99",
		Method: how("asked for", endpoints, pollEvery) + "; longest " + short(quantile(endpoints.took, 1)),
	}, quantile(endpoints.took, .99), 50*time.Millisecond)
	w.report.atMost(Row{
		Figure: "Secret acknowledged → served, p99", Method: how("handshakes", secrets, shakeEvery) + "; longest " + short(quantile(secrets.took, 1)),
	}, quantile(secrets.took, .99), 200*time.Millisecond)
	w.latency("while single changes are looked at, too", took)
	return nil
}

// probe is a host with one endpoint and a certificate of its own.
type probe struct {
	namespace, host string
	pairs           []pair
	serials         []string
}

const (
	probeName = "probe"
	probeHost = "probe.example.com"
)

func (w *world) makeProbe(ctx context.Context) (*probe, error) {
	p := &probe{namespace: w.Load.namespace(0), host: probeHost}
	for range 2 {
		chain, key, err := w.cluster.Authority.Issue(p.host)
		if err != nil {
			return nil, err
		}
		made, err := tls.X509KeyPair(chain, key)
		if err != nil {
			return nil, err
		}
		p.pairs, p.serials = append(p.pairs, pair{chain, key}), append(p.serials, made.Leaf.SerialNumber.String())
	}
	r := route{p.namespace, probeName, p.host, []string{"/"}, probeName, probeName}
	for _, object := range []any{
		newSecret(p.namespace, probeName, p.pairs[0]), newService(p.namespace, probeName, false), newSlice(p.namespace, probeName, spare(0)), r.ingress(),
	} {
		if err := w.create(ctx, object); err != nil {
			return nil, fmt.Errorf("make the probe: %w", err)
		}
	}
	w.probe = append(w.probe, newSecret(p.namespace, probeName, p.pairs[0]), newService(p.namespace, probeName, false), newSlice(p.namespace, probeName), r.ingress())
	limit, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	var last poll
	w.asker.poll(limit, 10*time.Millisecond, p.host, "/", func(one poll) bool {
		last = one
		return one.status == http.StatusOK
	})
	if last.status != http.StatusOK {
		return nil, fmt.Errorf("the probe answers %s, %w", last.answer, last.err)
	}
	return p, nil
}

// probeAll looks at single changes, of each kind for as long as a window.
func (w *world) probeAll(ctx context.Context, p *probe, routes, endpoints, secrets *samplesOf) error {
	for _, kind := range []struct {
		every time.Duration
		once  func(context.Context, int) error
	}{
		{routeEvery, func(ctx context.Context, n int) error { return w.probeRoute(ctx, n, routes) }},
		{flipEvery, func(ctx context.Context, n int) error { return w.probeEndpoint(ctx, p, n, endpoints) }},
		{turnEvery, func(ctx context.Context, n int) error { return w.probeSecret(ctx, p, n, secrets) }},
	} {
		tick := time.NewTicker(kind.every)
		for n, deadline := 1, time.Now().Add(w.Window); time.Now().Before(deadline) && ctx.Err() == nil; n++ {
			if err := kind.once(ctx, n); err != nil {
				tick.Stop()
				return err
			}
			<-tick.C
		}
		tick.Stop()
	}
	return ctx.Err()
}

func (w *world) routeOf(n int) *netv1.Ingress {
	s := n % w.Load.Services
	return route{w.Load.namespace(s), fmt.Sprintf("new-%05d", n), fmt.Sprintf("new-%05d.example.com", n), []string{"/"}, serviceName(s), ""}.ingress()
}

// addRoute creates an Ingress for a host of its own while it is asked for, and returns how long after the API server's answer it was live.
func (w *world) addRoute(ctx context.Context, n int) (time.Duration, error) {
	in := w.routeOf(n)
	host, service := in.Spec.Rules[0].Host, n%w.Load.Services
	ctx, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	var live time.Time
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		w.asker.poll(ctx, pollEvery, host, "/", func(one poll) bool {
			switch {
			case one.err != nil:
				w.counts.dropped("while %s was added: %v", host, one.err)
			case one.status == http.StatusNotFound:
			case one.status != http.StatusOK || w.Load.owner(one.backend) != service || one.host != host:
				w.counts.wrong("while %s was added: %s", host, one.answer)
			case live.IsZero():
				live = one.got
			}
			return !live.IsZero()
		})
	}()
	err := w.create(ctx, in)
	acknowledged := time.Now()
	if err != nil {
		cancel()
	}
	<-asked
	switch {
	case err != nil:
		return 0, err
	case live.IsZero():
		return 0, fmt.Errorf("%s is not live after %s", host, seenWithin)
	}
	return live.Sub(acknowledged), nil
}

func (w *world) probeRoute(ctx context.Context, n int, into *samplesOf) error {
	took, err := w.addRoute(ctx, n)
	if err != nil {
		return err
	}
	into.add(took)
	return w.remove(ctx, w.routeOf(n))
}

// afterwards is how long an endpoint is still looked for after another has taken its place.
const afterwards = 50 * time.Millisecond

// probeEndpoint puts another endpoint in the place of the one there was.
func (w *world) probeEndpoint(ctx context.Context, p *probe, n int, into *samplesOf) error {
	old, now := spare(n-1), spare(n)
	ctx, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	var used, unused time.Time // the first answer of the new one; when the last request was sent that the old one answered
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		w.asker.poll(ctx, pollEvery, p.host, "/", func(one poll) bool {
			switch {
			case one.err != nil:
				w.counts.dropped("while an endpoint was replaced: %v", one.err)
			case one.status != http.StatusOK || one.backend != old && one.backend != now:
				w.counts.wrong("while endpoint %s was replaced by %s: %s", old, now, one.answer)
			case one.backend == old && one.sent.After(unused):
				unused = one.sent
			case one.backend == now && (used.IsZero() || one.got.Before(used)):
				used = one.got
			}
			return !used.IsZero() && time.Since(used) > afterwards
		})
	}()
	err := w.update(ctx, newSlice(p.namespace, probeName, now))
	acknowledged := time.Now()
	if err != nil {
		cancel()
	}
	<-asked
	if err != nil || used.IsZero() {
		return fmt.Errorf("replace an endpoint: used %t, %w", !used.IsZero(), err)
	}
	into.add(used.Sub(acknowledged))
	into.add(unused.Sub(acknowledged))
	return nil
}

// probeSecret puts another certificate in the place of the one there was.
func (w *world) probeSecret(ctx context.Context, p *probe, n int, into *samplesOf) error {
	ctx, cancel := context.WithTimeout(ctx, seenWithin)
	defer cancel()
	var served time.Time
	var mu sync.Mutex
	var all sync.WaitGroup
	want := p.serials[n%len(p.serials)]
	all.Go(func() {
		tick := time.NewTicker(shakeEvery)
		defer tick.Stop()
		for ctx.Err() == nil {
			all.Go(func() {
				serial, err := w.shakeHands(p.host)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					w.counts.dropped("a handshake while a certificate was replaced: %v", err)
				case serial == want && served.IsZero():
					served = time.Now()
					cancel()
				}
			})
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	err := w.update(context.WithoutCancel(ctx), newSecret(p.namespace, probeName, p.pairs[n%len(p.pairs)]))
	acknowledged := time.Now()
	if err != nil {
		cancel()
	}
	all.Wait()
	if err != nil || served.IsZero() {
		return fmt.Errorf("replace a certificate: served %t, %w", !served.IsZero(), err)
	}
	into.add(served.Sub(acknowledged))
	return nil
}

// shakeHands returns the serial number of the certificate that is served for a host.
func (w *world) shakeHands(host string) (string, error) {
	dialer := &net.Dialer{Timeout: answerWithin}
	c, err := tls.DialWithDialer(dialer, "tcp", httpsAddress, &tls.Config{RootCAs: w.roots, ServerName: host, MinVersion: tls.VersionTLS12})
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }() // all that was wanted is known
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}
