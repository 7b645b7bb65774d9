package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// load asks all the time, in several ways, and counts what fails.
type load struct {
	perSecond int
	begin     time.Time
	end       func() // of the load; it waits for the last answer

	mu       sync.Mutex
	total    int
	failures []string
}

// ways to ask: what a client of each kind does. Answers take a while, so that there are always requests on their way.
func ways(s *sluice, host string) map[string]func(context.Context) (*http.Response, error) {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(shared.Authority.PEM)
	dial := func(port string) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(s.ip, port))
		}
	}
	client := func(protocol string) *http.Client {
		t := &http.Transport{MaxIdleConnsPerHost: 10, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DialContext: dial("80")}
		if protocol == "h2" {
			t.ForceAttemptHTTP2, t.DialContext = true, dial("443")
		}
		return &http.Client{Timeout: 20 * time.Second, Transport: t}
	}
	one, two := client("http/1.1"), client("h2")
	ask := func(c *http.Client, method, url, body string) func(context.Context) (*http.Response, error) {
		return func(ctx context.Context) (*http.Response, error) {
			r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
			if err != nil {
				return nil, err
			}
			if body == "" {
				r.Body, r.ContentLength = nil, 0
			}
			return c.Do(r)
		}
	}
	return map[string]func(context.Context) (*http.Response, error){
		"GET":        ask(one, http.MethodGet, "http://"+host+"/?delay=20ms", ""),
		"POST":       ask(one, http.MethodPost, "http://"+host+"/?delay=20ms", "body"),
		"GET HTTP/2": ask(two, http.MethodGet, "https://"+host+"/?delay=20ms", ""),
	}
}

// start asks so often a second, by each of the ways as often, until stop. What it could not ask in time, since the machine was busy, it
// asks late.
func start(ctx context.Context, perSecond int, ways map[string]func(context.Context) (*http.Response, error)) *load {
	l := &load{perSecond: perSecond, begin: time.Now()}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for name, ask := range ways {
		all.Go(func() {
			each := time.Duration(len(ways)) * time.Second / time.Duration(perSecond)
			tick := time.NewTicker(each)
			defer tick.Stop()
			for asked := 0; ; {
				select {
				case <-ctx.Done():
					return
				case now := <-tick.C:
					for ; asked < int(now.Sub(l.begin)/each); asked++ {
						all.Go(func() { l.once(context.WithoutCancel(ctx), name, ask) })
					}
				}
			}
		})
	}
	l.end = func() {
		cancel()
		all.Wait()
	}
	return l
}

func (l *load) once(ctx context.Context, name string, ask func(context.Context) (*http.Response, error)) {
	begin := time.Now()
	what := ""
	response, err := ask(ctx)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			what = response.Status
		}
	}
	if err != nil {
		what = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total++; what != "" {
		l.failures = append(l.failures, fmt.Sprintf("%s %s after %s: %s", begin.Format("15:04:05.000"), name, time.Since(begin).Round(time.Millisecond), what))
	}
}

// stop ends the load and fails the test when anything failed, or too little was asked.
func (l *load) stop(t *testing.T) {
	t.Helper()
	took := time.Since(l.begin)
	l.end()
	if least := int(took.Seconds()-1) * l.perSecond; l.total < least {
		t.Errorf("only %d requests in %s, want %d a second", l.total, took.Round(time.Millisecond), l.perSecond)
	}
	if n := len(l.failures); n > 0 {
		t.Errorf("%d of %d requests failed:\n%s", n, l.total, strings.Join(l.failures[:min(n, 10)], "\n"))
	}
	t.Logf("%d requests in %s, %d failures", l.total, took.Round(time.Millisecond), len(l.failures))
}
