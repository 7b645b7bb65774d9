package scale

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// The ways in which requests come. Each has its part of the rate.
const (
	overHTTP1     = "HTTP/1.1"
	overHTTP2     = "HTTP/2"
	overWebSocket = "WebSocket"
)

// parts of the rate, of ten.
var parts = map[string]int{overHTTP1: 5, overHTTP2: 3, overWebSocket: 2}

// traffic asks the busy hosts all the time. Each request has its time, whether those before it are answered or not, and a latency counts
// from that time.
type traffic struct {
	load   Load
	http   *pool
	https  string
	roots  *x509.CertPool
	paths  []int // the Ingresses asked for
	end    context.CancelFunc
	all    sync.WaitGroup
	counts *counts

	mu  sync.Mutex
	two map[int]*http.ClientConn // HTTP/2, by host
}

// counts gathers what came of requests.
type counts struct {
	mu      sync.Mutex
	took    []time.Duration
	window  tally
	total   tally
	details []string // of the first that went wrong
}

// tally counts answers.
type tally struct{ answers, wrong, dropped int }

func (t *tally) add(o tally) {
	t.answers += o.answers
	t.wrong += o.wrong
	t.dropped += o.dropped
}

const mostDetails = 20

func (c *counts) answered(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, d)
	c.window.answers++
}

// wrong notes an answer that must not be.
func (c *counts) wrong(format string, args ...any) {
	c.note(&c.window.wrong, "wrong: "+fmt.Sprintf(format, args...))
}

// dropped notes a connection that ended.
func (c *counts) dropped(format string, args ...any) {
	c.note(&c.window.dropped, "dropped: "+fmt.Sprintf(format, args...))
}

func (c *counts) note(n *int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
	if len(c.details) < mostDetails {
		c.details = append(c.details, time.Now().Format("15:04:05.000 ")+text)
	}
}

// cut returns what there was since the last cut.
func (c *counts) cut() (took []time.Duration, t tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took, t = c.took, c.window
	c.total.add(c.window)
	c.took, c.window = nil, tally{}
	return took, t
}

// startTraffic begins to ask, so often a second.
func (w *world) startTraffic(ctx context.Context, rate int) *traffic {
	t := &traffic{load: w.Load, http: &pool{address: httpAddress}, https: httpsAddress, roots: w.roots, counts: w.counts, two: map[int]*http.ClientConn{}}
	for i := range t.load.Ingresses {
		if t.load.busy(i) {
			t.paths = append(t.paths, i)
		}
	}
	ctx, t.end = context.WithCancel(ctx)
	for way, part := range parts {
		every := 10 * time.Second / time.Duration(max(1, rate*part))
		switch way {
		case overHTTP1:
			t.all.Go(func() { t.keep(ctx, every, t.askHTTP1) })
		case overHTTP2:
			t.all.Go(func() { t.keep(ctx, every, t.askHTTP2) })
		case overWebSocket:
			t.startSockets(ctx, every)
		}
	}
	return t
}

// warm waits until the connections are there that are kept, and some time more.
func (t *traffic) warm(ctx context.Context, more time.Duration) {
	for host := range t.load.Busy {
		if _, err := t.connTwo(ctx, host); err != nil {
			t.counts.dropped("an HTTP/2 connection to %s: %v", hostName(host), err)
		}
	}
	rest(ctx, more)
}

// stop ends it, and waits for what is in flight.
func (t *traffic) stop() {
	t.end()
	t.all.Wait()
	t.http.close()
	for _, c := range t.two {
		_ = c.Close() // it is no longer used
	}
}

// keep calls ask at its times, each in a goroutine.
func (t *traffic) keep(ctx context.Context, every time.Duration, ask func(context.Context, int) error) {
	for next := time.Now(); ; next = next.Add(every) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
		}
		t.all.Go(func() {
			i := t.paths[rand.IntN(len(t.paths))]
			if err := ask(context.WithoutCancel(ctx), i); err != nil {
				t.counts.dropped("a request to %s%s: %v", hostName(t.load.hostOf(i)), t.load.path(i), err)
				return
			}
			t.counts.answered(time.Since(next))
		})
	}
}

// check compares an answer with what the Ingress says.
func (t *traffic) check(way string, ingress int, path string, a answer) {
	host := hostName(t.load.hostOf(ingress))
	if a.status != http.StatusOK || a.host != host || a.path != path || t.load.owner(a.backend) != t.load.service(ingress) {
		t.counts.wrong("%s %s%s: %s; want %s", way, host, path, a, serviceName(t.load.service(ingress)))
	}
}

// pathOf a request to an Ingress.
func (t *traffic) pathOf(ingress int) string {
	if path := t.load.path(ingress); path != "/" {
		return path + "/page"
	}
	return "/page"
}

func (t *traffic) askHTTP1(ctx context.Context, i int) error {
	path := t.pathOf(i)
	a, err := t.http.get(ctx, hostName(t.load.hostOf(i)), path, false)
	if err != nil {
		return err
	}
	if a.closed {
		t.counts.dropped("the answer to %s%s closes the connection", a.host, a.path)
	}
	t.check(overHTTP1, i, path, a)
	return nil
}

func (t *traffic) askHTTP2(ctx context.Context, i int) error {
	h := t.load.hostOf(i)
	c, err := t.connTwo(ctx, h)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	path := t.pathOf(i)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+hostName(h)+path, nil)
	if err != nil {
		return err
	}
	response, err := c.RoundTrip(request)
	if err == nil {
		defer response.Body.Close()
		var body []byte
		if body, err = io.ReadAll(response.Body); err == nil {
			a := answer{status: response.StatusCode}
			if a.status == http.StatusOK {
				a.parse(string(body))
			}
			t.check(overHTTP2, i, path, a)
			return nil
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.two[h] == c {
		delete(t.two, h)
	}
	return err
}

// connTwo is the HTTP/2 connection of a host, whose certificate must be right.
func (t *traffic) connTwo(ctx context.Context, host int) (*http.ClientConn, error) {
	t.mu.Lock()
	c := t.two[host]
	t.mu.Unlock()
	if c != nil {
		return c, nil
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: t.roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: answerWithin}).DialContext(ctx, "tcp", t.https)
		},
	}
	c, err := transport.NewClientConn(ctx, "https", hostName(host)+":443")
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.two[host]; other != nil {
		_ = c.Close() // somebody was faster
		return other, nil
	}
	t.two[host] = c
	return c, nil
}

// startSockets opens WebSockets, as many as messages a second up to one for each busy host, that stay open.
func (t *traffic) startSockets(ctx context.Context, every time.Duration) {
	n := max(1, min(t.load.Busy, int(time.Second/every)))
	var number atomic.Int64
	for s := range n {
		t.all.Go(func() {
			for ctx.Err() == nil {
				if err := t.socket(ctx, s*t.load.Busy/n, time.Duration(n)*every, &number); err != nil && ctx.Err() == nil {
					t.counts.dropped("the WebSocket to %s: %v", hostName(s*t.load.Busy/n), err)
				}
			}
		})
	}
}

// socket sends a message every so often, and takes each back, until the context ends.
func (t *traffic) socket(ctx context.Context, ingress int, every time.Duration, number *atomic.Int64) error {
	host, path := hostName(t.load.hostOf(ingress)), t.pathOf(ingress)
	dialer := &websocket.Dialer{HandshakeTimeout: answerWithin, NetDialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: answerWithin}).DialContext(ctx, "tcp", t.http.address)
	}}
	c, response, err := dialer.DialContext(ctx, "ws://"+host+path, nil)
	if err != nil {
		return err
	}
	response.Body.Close()
	defer func() { _ = c.Close() }() // the other side closes too
	next := time.Now().Add(rand.N(every))
	for ; ; next = next.Add(every) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(next)):
		}
		sent := fmt.Sprintf("message %d", number.Add(1))
		if err := c.WriteMessage(websocket.TextMessage, []byte(sent)); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
			return err
		}
		_, message, err := c.ReadMessage()
		if err != nil {
			return err
		}
		a := answer{status: http.StatusOK}
		if got := a.parse(string(message)); got != sent {
			t.counts.wrong("the WebSocket to %s gave %q back for %q", host, got, sent)
		}
		t.check(overWebSocket, ingress, path, a)
		t.counts.answered(time.Since(next))
	}
}
