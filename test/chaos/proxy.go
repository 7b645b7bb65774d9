package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Settings of a Proxy.
type Settings struct {
	Upstream string      // the API server's URL
	CA       []byte      // its authority, PEM
	Listen   string      // HOST:PORT
	TLS      *tls.Config // with the proxy's certificate
	Log      io.Writer   // a line for each thing done; may be nil
}

// Proxy forwards to an API server and plays scripts.
type Proxy struct {
	URL string

	settings  Settings
	upstream  *url.URL
	transport *http.Transport
	server    *http.Server
	play      atomic.Pointer[play]

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// Start listens and forwards, without a script.
func Start(s Settings) (*Proxy, error) {
	upstream, err := url.Parse(s.Upstream)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.CA) {
		return nil, fmt.Errorf("chaos proxy: CA is no PEM certificate")
	}
	if s.Log == nil {
		s.Log = io.Discard
	}
	listener, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		URL: "https://" + listener.Addr().String(), settings: s, upstream: upstream, conns: map[net.Conn]struct{}{},
		transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableCompression: true, IdleConnTimeout: time.Minute},
	}
	p.Play(&Script{})
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), TLSConfig: s.TLS, ConnState: p.track, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.ServeTLS(listener, "", "") }() // it ends with Close
	return p, nil
}

// Close cuts everything and stops.
func (p *Proxy) Close() {
	_ = p.server.Close() // what it says about its connections is of no use
	p.transport.CloseIdleConnections()
}

// Play begins a script in place of the one before.
func (p *Proxy) Play(s *Script) { p.play.Store(newPlay(s)) }

// Open lists the rules that have not acted as often as they are to and still may: a test whose script did not happen has shown nothing.
func (p *Proxy) Open() []string { return p.play.Load().open() }

// CutConnections closes every client's connections.
func (p *Proxy) CutConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) track(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.conns[c] = struct{}{}
	case http.StateClosed, http.StateHijacked:
		delete(p.conns, c)
	}
}

func (p *Proxy) say(q request, r *Rule, event string) {
	fmt.Fprintf(p.settings.Log, "%s %s %s %s/%s %s\n", time.Now().Format("15:04:05.000"), r.title(), q.verb, q.resource, q.name, event)
}

// serve acts on a request, or forwards it.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	q := parse(r)
	play := p.play.Load()
	rule := play.next(q, "")
	if rule == nil {
		p.forward(w, r, q, false)
		return
	}
	p.say(q, rule, "")
	switch rule.Do {
	case Answer:
		refuse(w, q, rule)
	case Delay:
		if pause(r.Context(), rule.Time.Duration) {
			p.forward(w, r, q, false)
		}
	case Hang:
		limit := rule.Time.Duration
		if limit == 0 {
			limit = time.Hour
		}
		pause(r.Context(), limit)
		panic(http.ErrAbortHandler)
	case Lose:
		p.forward(w, r, q, true)
	case CutConnections:
		p.CutConnections()
	default:
		panic(http.ErrAbortHandler) // net/http then closes the stream, or the connection of HTTP/1
	}
}

// forward passes a request on, and its answer back unless that is lost.
func (p *Proxy) forward(w http.ResponseWriter, r *http.Request, q request, lose bool) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = p.upstream.Scheme, p.upstream.Host, p.upstream.Host, ""
	if q.verb == "watch" {
		out.Header.Del("Accept-Encoding") // events are read on the way
	}
	response, err := p.transport.RoundTrip(out)
	if err != nil || lose {
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body) // it counts only that the API server has done it
			response.Body.Close()
		}
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	if q.verb == "watch" && response.StatusCode == http.StatusOK {
		err = p.watch(r.Context(), w, response, q)
	} else {
		_, err = io.Copy(w, response.Body)
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// refuse answers as the API server words its errors.
func refuse(w http.ResponseWriter, q request, rule *Rule) {
	status := apierrors.NewGenericServerResponse(rule.Code, q.verb, schema.GroupResource{Resource: q.resource}, q.name, "by script: "+rule.title(), rule.RetryAfter, false).Status()
	if rule.Code == http.StatusGone {
		status = apierrors.NewResourceExpired("by script: " + rule.title()).Status()
	}
	status.Kind, status.APIVersion = "Status", "v1"
	body := &bytes.Buffer{}
	if err := json.NewEncoder(body).Encode(status); err != nil {
		panic(http.ErrAbortHandler)
	}
	if rule.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(rule.RetryAfter))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(rule.Code)
	_, _ = body.WriteTo(w) // the client may be gone
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

var errCut = errors.New("cut by script")
