package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

func TestForwardsAndReusesConnections(t *testing.T) {
	o := echo(t)
	p := pool(t, Settings{}, o.addr)
	for range 20 {
		x := request("GET", "")
		status, body, err := send(p, x)
		if status != 200 || body != o.addr || err != nil {
			t.Fatal(status, body, err)
		}
		f := x.Forward
		if f.Upstream != "u" || f.Endpoint != o.addr || f.Attempts != 1 || f.Status != 200 || f.Wait <= 0 {
			t.Fatalf("%+v", f)
		}
	}
	if n := o.accepted.Load(); n != 1 {
		t.Errorf("%d connections for requests one after another", n)
	}
	if n := p.endpoint(o.addr).inFlight.Load(); n != 0 {
		t.Errorf("%d in flight at rest", n)
	}
}

func TestBodyGivenUpClosesTheConnection(t *testing.T) {
	o := serve(t, func(p *peer) {
		for p.next() != nil {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + words(50000))
			_, _ = p.r.ReadByte()
		}
	})
	p := pool(t, Settings{}, o.addr)
	x := request("GET", "")
	if err := p.Forward(x, filter.ForwardOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := p.endpoint(o.addr).inFlight.Load(); n != 1 {
		t.Fatalf("%d in flight while the body is read", n)
	}
	x.Discard()
	if e := p.endpoint(o.addr); e.inFlight.Load() != 0 || e.idle.len() != 0 {
		t.Errorf("%d in flight, %d idle after the body was given up", e.inFlight.Load(), e.idle.len())
	}
}

func TestAnotherEndpointWhenRefused(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		t.Run(method, func(t *testing.T) {
			good := echo(t)
			p := pool(t, Settings{Ejection: Ejection{Off: true}}, good.addr, refused(t), refused(t))
			for range 50 {
				x := request(method, map[string]string{"POST": "data"}[method])
				if status, body, err := send(p, x); status != 200 || body != good.addr || err != nil {
					t.Fatal(status, body, err, x.Forward)
				}
			}
			if n := good.requests.Load(); n != 50 {
				t.Errorf("%d requests arrived for 50 sent", n)
			}
		})
	}
}

func TestAllRefusedIs502(t *testing.T) {
	p := pool(t, Settings{}, refused(t), refused(t))
	x := request("GET", "")
	status, _, err := send(p, x)
	if status != 502 || reasonOf(err) != "connect_failed" || x.Reason != message.ConnectFailed || x.Forward.Attempts != 2 {
		t.Fatal(status, err, x.Forward)
	}
}

func TestConnectTimeoutIsShortWhileAnotherIsLeft(t *testing.T) {
	good := echo(t)
	var mu sync.Mutex
	var waits []time.Duration
	s := Settings{Dial: func(address string, timeout time.Duration) (net.Conn, error) {
		mu.Lock()
		waits = append(waits, timeout)
		mu.Unlock()
		if address == good.addr {
			return dial(address, timeout)
		}
		return nil, &net.OpError{Op: "dial", Err: timedOut{}}
	}}
	p := pool(t, s, "192.0.2.1:80", "192.0.2.2:80")
	status, _, err := send(p, request("GET", ""))
	if status != 504 || reasonOf(err) != "connect_timeout" {
		t.Fatal(status, err)
	}
	if len(waits) != 2 || waits[0] != time.Second || waits[1] != 5*time.Second {
		t.Errorf("waited %v, want 1s and, for the last, 5s", waits)
	}
}

type timedOut struct{}

func (timedOut) Error() string   { return "timed out" }
func (timedOut) Timeout() bool   { return true }
func (timedOut) Temporary() bool { return true }

// A connection that was used before and dies as the request arrives.
func TestA20_ReusedConnectionThatDies(t *testing.T) {
	for _, c := range []struct {
		method, body string
		retried      bool
	}{
		{"GET", "", true},
		{"HEAD", "", true},
		{"PUT", "small", true},
		{"DELETE", "", true},
		{"POST", "", false},
		{"POST", "small", false},
		{"PATCH", "small", false},
		{"PUT", words(80 << 10), false}, // too large to be kept
	} {
		t.Run(fmt.Sprintf("%s %d bytes", c.method, len(c.body)), func(t *testing.T) {
			o := serve(t, func(p *peer) {
				for first := true; ; first = false {
					if q := p.next(); q == nil {
						return
					} else if !first && q.Header.Get("X-Die") != "" && p.origin.accepted.Load() == 1 {
						p.reset() // after it has read the request
						return
					} else {
						got, _ := io.ReadAll(q.Body)
						if q.Method == "HEAD" {
							got = nil
						}
						p.answer(string(got))
					}
				}
			})
			p := pool(t, Settings{}, o.addr)
			if status, _, err := send(p, request("GET", "")); status != 200 || err != nil {
				t.Fatal(status, err)
			}
			x := request(c.method, c.body)
			x.Request.Header.Add("X-Die", "1")
			status, body, err := send(p, x)
			want := int64(2)
			if c.retried {
				want = 3
				if status != 200 || body != c.body || err != nil || x.Forward.Attempts != 2 {
					t.Errorf("%d %q %v %+v", status, body, err, x.Forward)
				}
			} else if status != 502 || reasonOf(err) != "upstream_reset" {
				t.Errorf("%d %v, want 502", status, err)
			}
			if n := o.requests.Load(); n != want {
				t.Errorf("the origin got %d requests, want %d", n, want)
			}
			if n := p.endpoint(o.addr).inFlight.Load(); n != 0 {
				t.Errorf("%d in flight at rest", n)
			}
		})
	}
}

// A fresh connection that dies after the request has died with its endpoint, or of the request: an idempotent one is sent to one other
// endpoint, so that an endpoint which is killed is not noticed and a deadly request is not taken to all.
func TestA20_FreshConnectionThatDies(t *testing.T) {
	closes := func(p *peer) { p.next() }
	resets := func(p *peer) { p.next(); p.reset() }
	begins := func(p *peer) {
		p.next()
		p.say("HTTP/1.1 200 OK\r\nContent-Le")
	}
	for _, c := range []struct {
		name, method, body string
		die                func(*peer)
		want               int
	}{
		{"close", "GET", "", closes, 2},
		{"reset", "GET", "", resets, 2},
		{"body kept", "PUT", "small", resets, 2},
		{"body too large to keep", "PUT", words(80 << 10), resets, 1},
		{"not idempotent", "POST", "", resets, 1},
		{"half a head", "GET", "", begins, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			origins := []*origin{serve(t, c.die), serve(t, c.die), serve(t, c.die)}
			p := pool(t, Settings{}, origins[0].addr, origins[1].addr, origins[2].addr)
			x := request(c.method, c.body)
			if status, _, err := send(p, x); status != 502 || reasonOf(err) != "upstream_reset" || x.Forward.Attempts != c.want {
				t.Fatal(status, err, x.Forward)
			}
			sent := 0
			for _, o := range origins {
				n := int(o.requests.Load())
				if sent += n; n > 1 {
					t.Errorf("%d requests sent to one origin", n)
				}
			}
			if sent != c.want {
				t.Errorf("%d requests sent, want %d", sent, c.want)
			}
		})
	}
	t.Run("another lives", func(t *testing.T) {
		dying, good := serve(t, resets), echo(t)
		p := pool(t, Settings{}, dying.addr, good.addr)
		for range 2 { // each of them is first once
			x := request("GET", "")
			if status, body, err := send(p, x); status != 200 || body != good.addr || err != nil {
				t.Fatal(status, body, err, x.Forward)
			}
		}
		if n := dying.requests.Load(); n < 1 || n > 2 { // the turn of the second request depends on whose the first was
			t.Errorf("%d requests sent to the one that dies", n)
		}
	})
	t.Run("the budget is spent", func(t *testing.T) {
		dying, other := serve(t, resets), serve(t, resets)
		p := pool(t, Settings{Ejection: Ejection{Off: true}, Retry: Retry{Percent: 1, PerSecond: 1, Burst: 5}}, dying.addr, other.addr)
		for range 100 {
			_, _, _ = send(p, request("GET", ""))
		}
		if n := dying.requests.Load() + other.requests.Load(); n < 105 || n > 110 {
			t.Errorf("%d requests sent for 100", n)
		}
	})
}

// What an origin closed while it idled is noticed before anything is sent, so even a POST goes through.
func TestClosedIdleConnectionCostsNobody(t *testing.T) {
	o := serve(t, func(p *peer) {
		if p.next() != nil {
			p.answer("x")
		}
	})
	p := pool(t, Settings{}, o.addr)
	for i := range 30 {
		x := request("POST", "data")
		if status, _, err := send(p, x); status != 200 || err != nil {
			t.Fatal(i, status, err, x.Forward)
		}
		if i == 0 {
			continue
		}
		eventually(t, "the origin's close to arrive", func() bool {
			e := p.endpoint(o.addr)
			e.idle.mu.Lock()
			defer e.idle.mu.Unlock()
			return len(e.idle.conns) == 0 || e.idle.conns[0].session.(interface{ Stale() bool }).Stale()
		})
	}
	if n := o.requests.Load(); n != 30 {
		t.Errorf("%d requests arrived for 30", n)
	}
}

func TestSlowHeadIs504(t *testing.T) {
	over := make(chan bool)
	o := serve(t, func(p *peer) {
		p.next()
		p.say("HTTP/1.1 200 ")
		<-over
	})
	defer close(over)
	p := pool(t, Settings{}, o.addr)
	x := request("GET", "")
	status, _, err := sendWith(p, x, filter.ForwardOptions{Timeout: 30 * time.Millisecond})
	if status != 504 || reasonOf(err) != "upstream_timeout" {
		t.Fatal(status, err)
	}
	if e := p.endpoint(o.addr); e.inFlight.Load() != 0 || e.broken.Load() != 1 {
		t.Errorf("%d in flight, %d broken", e.inFlight.Load(), e.broken.Load())
	}
}

func TestClientGoneWhileWaiting(t *testing.T) {
	over := make(chan bool)
	o := serve(t, func(p *peer) { p.next(); <-over })
	defer close(over)
	p := pool(t, Settings{}, o.addr)
	x := request("GET", "")
	x.Stream.(*stream).gone.Store(true)
	began := time.Now()
	status, _, err := send(p, x)
	if status != 499 || x.Reason != message.ClientGone || reasonOf(err) != "client_gone" {
		t.Fatal(status, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("given up after %v only", took)
	}
	if n := p.endpoint(o.addr).broken.Load(); n != 0 {
		t.Error("the endpoint was blamed for the client")
	}
}

// A6, A12: what is wrong with the request body is the client's fault, whatever it did to the connection.
func TestRequestBodyFaults(t *testing.T) {
	for _, reason := range []message.Reason{message.BadChunk, message.BodyTimeout, message.ClientGone, message.BodyTooLarge} {
		for _, ready := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s ready %v", reason, ready), func(t *testing.T) {
				o := echo(t)
				p := pool(t, Settings{}, o.addr, o.addr)
				x := request("PUT", "begin")
				broken := &memory{rest: []byte("begin"), broken: &message.BodyError{Reason: reason, Err: errors.New("as told")}}
				x.Request.Body, x.Request.Length = broken, message.Unknown
				if !ready {
					x.Request.Body = later{broken}
				}
				status, _, err := send(p, x)
				if status != reason.Status() || x.Reason != reason || reasonOf(err) != reason.String() || x.Forward.Attempts != 1 {
					t.Fatal(status, err, x.Forward)
				}
				e := p.endpoint(o.addr)
				if e.broken.Load() != 0 || e.failed.Load() != 0 || e.idle.len() != 0 || e.inFlight.Load() != 0 {
					t.Errorf("endpoint blamed, or its connection kept: %+v", p.Status())
				}
				if o.requests.Load() != 0 {
					t.Error("the origin took a part for the whole")
				}
			})
		}
	}
}

type probed struct {
	memory
	err error
}

func (p *probed) Probe(time.Duration) error { return p.err }

func TestProbeBeforeAConnectionIsTaken(t *testing.T) {
	o := echo(t)
	p := pool(t, Settings{}, o.addr)
	x := request("POST", "")
	x.Request.Body = &probed{err: &message.BodyError{Reason: message.BadChunk, Err: io.ErrUnexpectedEOF}}
	x.Request.Length = message.Unknown
	if status, _, err := send(p, x); status != 400 || reasonOf(err) != "bad_chunk" {
		t.Fatal(status, err)
	}
	if o.accepted.Load() != 0 || x.Forward.Attempts != 0 {
		t.Error("an endpoint was bothered")
	}
}

func TestHostThatIsSent(t *testing.T) {
	o := serve(t, func(p *peer) {
		for q := p.next(); q != nil; q = p.next() {
			p.answer(q.Host)
		}
	})
	for _, c := range []struct {
		name     string
		endpoint model.Endpoint
		options  filter.ForwardOptions
		want     string
	}{
		{"the client's", model.Endpoint{}, filter.ForwardOptions{KeepHost: true}, "app.test"},
		{"the url's address is none to send", model.Endpoint{Host: "127.0.0.1:80"}, filter.ForwardOptions{KeepHost: true}, "app.test"},
		{"the url's name", model.Endpoint{Host: "origin.test"}, filter.ForwardOptions{KeepHost: true}, "origin.test"},
		{"keepHost of the server", model.Endpoint{Host: "origin.test", KeepHost: true}, filter.ForwardOptions{KeepHost: true}, "app.test"},
		{"setUpstreamHost", model.Endpoint{Host: "127.0.0.1:80"}, filter.ForwardOptions{}, "127.0.0.1:80"},
		{"setUpstreamHost without a host", model.Endpoint{}, filter.ForwardOptions{}, o.addr},
		{"keepHost over setUpstreamHost", model.Endpoint{Host: "origin.test", KeepHost: true}, filter.ForwardOptions{}, "app.test"},
		{"a Host of the filter's", model.Endpoint{Host: "origin.test"}, filter.ForwardOptions{Host: "filter.test"}, "filter.test"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.endpoint.Address = o.addr
			pools := New(Settings{})
			defer pools.Close()
			if err := pools.Set(&model.Upstream{Name: "u", Endpoints: []model.Endpoint{c.endpoint}}); err != nil {
				t.Fatal(err)
			}
			if _, host, err := sendWith(pools.Get("u"), request("GET", ""), c.options); host != c.want || err != nil {
				t.Errorf("sent %q %v, want %q", host, err, c.want)
			}
		})
	}
}

func TestNoEndpointsSaysWhy(t *testing.T) {
	pools := New(Settings{})
	defer pools.Close()
	for reason, want := range map[string]message.Reason{
		"": message.NoEndpoints, "service_missing": message.ServiceMissing, "port_missing": message.PortMissing,
		"backend_unsupported": message.BackendUnsupported, "nonsense": message.FilterBroken,
	} {
		if err := pools.Set(&model.Upstream{Name: "u", Reason: reason}); err != nil {
			t.Fatal(err)
		}
		x := request("GET", "")
		if status, _, _ := send(pools.Get("u"), x); status != want.Status() || x.Reason != want {
			t.Errorf("%q: %d %s, want %s", reason, status, x.Reason, want)
		}
	}
}

func TestUpgradeKeepsItsEndpointAndCounters(t *testing.T) {
	o := serve(t, func(p *peer) {
		if q, err := http.ReadRequest(p.r); err != nil || q.Header.Get("Upgrade") != "websocket" {
			return
		}
		p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly")
		_, _ = io.Copy(p, p.r)
	})
	p := pool(t, Settings{}, o.addr)
	x := request("GET", "")
	x.Request.Upgrade = "websocket"
	if err := p.Forward(x, filter.ForwardOptions{}); err != nil {
		t.Fatal(err)
	}
	tunnel := x.Response.Tunnel
	if x.Response.Status != 101 || tunnel == nil || p.endpoint(o.addr).inFlight.Load() != 1 {
		t.Fatalf("%+v", x.Response)
	}
	x.Reset(x.Stream) // the exchange goes on to other things
	e := p.endpoint(o.addr)
	p.close() // and so does the config
	var got [9]byte
	if _, err := io.WriteString(tunnel, "late"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(tunnel, got[:]); err != nil || string(got[:]) != "earlylate" {
		t.Fatalf("%q %v", got, err)
	}
	tunnel.Close()
	tunnel.Close()
	if n := e.inFlight.Load(); n != 0 {
		t.Errorf("%d in flight after the tunnel", n)
	}
}

func TestH6_PanicLeavesNothingInFlight(t *testing.T) {
	o := echo(t)
	p := pool(t, Settings{}, o.addr)
	x := request("POST", "x")
	x.Request.Body = &panicking{}
	func() {
		defer func() { _ = recover() }()
		_ = p.Forward(x, filter.ForwardOptions{})
		t.Error("no panic")
	}()
	if n := p.endpoint(o.addr).inFlight.Load(); n != 0 {
		t.Errorf("%d in flight after a panic", n)
	}
}

type panicking struct{ memory }

func (*panicking) Read([]byte) (int, error) { panic("bad filter") }
func (*panicking) Ready() (int, bool)       { return 1, true }
