package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/message"
)

// book is a Lookup by hand.
type book struct {
	mu    sync.Mutex
	addrs []netip.Addr
	ttl   time.Duration
	err   error
	asked []time.Time
}

func (b *book) lookUp(_ context.Context, _ string) ([]netip.Addr, time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, time.Now())
	return b.addrs, b.ttl, b.err
}

func (b *book) say(ttl time.Duration, err error, texts ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addrs, b.ttl, b.err = addresses(texts...), ttl, err
}

// count is how often it was asked since gaps.
func (b *book) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked)
}

// gaps are the seconds between lookups since it was last asked.
func (b *book) gaps() (text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := 1; i < len(b.asked); i++ {
		text += fmt.Sprintf(" %v", b.asked[i].Sub(b.asked[i-1]).Seconds())
	}
	b.asked = b.asked[len(b.asked)-1:]
	return strings.TrimSpace(text)
}

func (p *Pool) where() string {
	status := p.Status()
	words := []string{}
	for _, e := range status.Endpoints {
		words = append(words, e.Address)
	}
	return strings.TrimSpace(strings.Join(words, " ") + " " + status.Reason)
}

// named makes a pool of named endpoints in a bubble, which waits for all goroutines to end when the test does.
func named(t *testing.T, b *book, guard *model.Guard, endpoints ...string) (*Pool, *Pools) {
	t.Helper()
	pools := New(Settings{Lookup: b.lookUp})
	u := upstream(endpoints...)
	u.Guard = guard
	if err := pools.Set(u); err != nil {
		t.Fatal(err)
	}
	return pools.Get("u"), pools
}

// pass lets time pass until all that happens meanwhile has happened.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestNamesAreLookedUpWhenTheirTimeIsOver(t *testing.T) {
	for _, c := range []struct {
		ttl  time.Duration
		gaps string
	}{
		{7 * time.Second, "7 7"},
		{time.Millisecond, "1 1"},
		{time.Hour, "300 300"},
		{0, "30 30"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &book{}
			b.say(c.ttl, nil, "192.0.2.1", "2001:db8::1")
			p, pools := named(t, b, nil, "app.test:80")
			defer pools.Close()
			synctest.Wait()
			if got := p.where(); got != "192.0.2.1:80 [2001:db8::1]:80" {
				t.Errorf("%v: %s", c.ttl, got)
			}
			for b.count() < 3 {
				pass(time.Second)
			}
			if got := b.gaps(); got != c.gaps {
				t.Errorf("%v: looked up after %s", c.ttl, got)
			}
		})
	}
}

func TestNamesKeepTheirLastAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, lost := &book{}, errors.New("no such host")
		b.say(10*time.Second, nil, "192.0.2.1")
		p, pools := named(t, b, nil, "app.test:80")
		defer pools.Close()
		pass(time.Second)
		b.say(0, lost)
		pass(100 * time.Second)
		if got := p.where(); got != "192.0.2.1:80" {
			t.Errorf("while lookups fail: %s", got)
		}
		if got := b.gaps(); got != "10 1 2 4 8 16 30 30" {
			t.Errorf("looked up after %s", got)
		}
		b.say(10*time.Second, nil, "192.0.2.2")
		pass(30 * time.Second)
		if got := p.where(); got != "192.0.2.2:80" {
			t.Errorf("after they succeed again: %s", got)
		}
		_ = b.gaps()
		b.say(0, lost)
		pass(15 * time.Second)
		if got := b.gaps(); !strings.HasSuffix(got, "1 2") {
			t.Errorf("failures are not forgotten: %s", got)
		}
	})
}

func TestNameThatNeverWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		b.say(0, errors.New("look up app.test: no such host"))
		p, pools := named(t, b, nil, "app.test:80")
		defer pools.Close()
		synctest.Wait()
		if status, _, err := send(p, request("GET", "")); status != 503 || reasonOf(err) != "name_unresolved" {
			t.Errorf("%d %v", status, err)
		}
		if s := p.Status(); s.Reason != message.NameUnresolved.String() || s.Detail != "look up app.test: no such host" {
			t.Errorf("%+v", s)
		}
		b.say(time.Minute, nil, "192.0.2.1")
		pass(2 * time.Second)
		if got := p.where(); got != "192.0.2.1:80" {
			t.Errorf("after it came: %s", got)
		}
		b.say(time.Minute, nil)
		pass(time.Minute)
		if got := p.where(); got != "name_unresolved" {
			t.Errorf("without addresses: %s", got)
		}
	})
}

// TestNamesComeAndGo changes the upstream: a name that stays is not looked up again, and without names nothing goes on.
func TestNamesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		b.say(time.Minute, nil, "192.0.2.1")
		p, pools := named(t, b, nil, "app.test:80")
		defer pools.Close()
		synctest.Wait()
		_ = pools.Set(upstream("app.test:81", "192.0.2.1:82", "localhost:83"))
		synctest.Wait()
		if got := p.where(); got != "192.0.2.1:81 192.0.2.1:82 localhost:83" || b.count() != 1 {
			t.Errorf("%s after %d lookups", got, b.count())
		}
		_ = pools.Set(upstream("app.test:81", "more.test:81", "192.0.2.1:81"))
		synctest.Wait()
		if got := p.where(); got != "192.0.2.1:81" || b.count() != 2 {
			t.Errorf("%s after %d lookups", got, b.count())
		}
		_ = pools.Set(upstream("192.0.2.9:80"))
		pass(10 * time.Minute)
		p.mu.Lock()
		running := p.names.cancel != nil
		p.mu.Unlock()
		if got := p.where(); got != "192.0.2.9:80" || b.count() != 2 || running {
			t.Errorf("%s after %d lookups, goroutine %t", got, b.count(), running)
		}
		_ = pools.Set(upstream("app.test:80"))
		synctest.Wait()
		if got := p.where(); got != "192.0.2.1:80" {
			t.Errorf("a name that came back: %s", got)
		}
	})
}

// TestLookupsEndWithThePools closes while a lookup hangs. The bubble waits for its goroutine.
func TestLookupsEndWithThePools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		pools := New(Settings{Lookup: func(ctx context.Context, _ string) ([]netip.Addr, time.Duration, error) {
			<-ctx.Done()
			ended = true
			return nil, 0, ctx.Err()
		}})
		_ = pools.Set(upstream("app.test:80"))
		synctest.Wait()
		waited := time.Now()
		pools.Close()
		if !ended || !time.Now().Equal(waited) {
			t.Errorf("ended %t after %v", ended, time.Since(waited))
		}
		if _ = pools.Set(upstream("app.test:80")); pools.Get("u") != nil {
			t.Error("a pool was made after Close")
		}
	})
}

func TestOfflineLooksNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &book{}
		pools := New(Settings{Lookup: b.lookUp, Offline: true})
		defer pools.Close()
		_ = pools.Set(upstream("app.test:80"))
		pass(time.Minute)
		if got := pools.Get("u").where(); got != "app.test:80" || b.count() > 0 {
			t.Errorf("%s after %d lookups", got, b.count())
		}
	})
}

// TestG4_NamesThatLeadToThisHost lets a name, which is not the operator's, change to addresses that are refused.
func TestG4_NamesThatLeadToThisHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, guard := &book{}, &model.Guard{Refuse: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443")}}
		b.say(time.Second, nil, "192.0.2.1")
		p, pools := named(t, b, guard, "app.test:443")
		defer pools.Close()
		synctest.Wait()
		for _, bad := range []string{
			"127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0", "::", "224.0.0.1", "100.100.100.200", "fd00:ec2::254",
			"10.96.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
		} {
			b.say(time.Second, nil, "192.0.2.1", bad)
			pass(time.Second)
			if got := p.where(); got != "192.0.2.1:443" {
				t.Errorf("%s beside another: %s", bad, got)
			}
			b.say(time.Second, nil, bad)
			pass(time.Second)
			status, _, err := send(p, request("GET", ""))
			if got := p.where(); got != "address_refused" || status != 503 || reasonOf(err) != "address_refused" {
				t.Errorf("%s: %s, %d %v", bad, got, status, err)
			}
			if detail := p.Status().Detail; !strings.Contains(detail, "app.test: ") {
				t.Errorf("%s: %q", bad, detail)
			}
		}
		b.say(time.Second, nil, "10.96.0.1")
		u := upstream("app.test:80", "localhost:80")
		u.Guard = guard
		_ = pools.Set(u)
		pass(2 * time.Second)
		if got := p.where(); got != "10.96.0.1:80" {
			t.Errorf("another port of that address: %s", got)
		}
	})
}

// TestG4_GuardThatChanges refuses an address that was in use when the guard comes to know it.
func TestG4_GuardThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, said := &book{}, &strings.Builder{}
		b.say(time.Hour, nil, "10.96.0.1")
		pools := New(Settings{Lookup: b.lookUp, Log: slog.New(slog.NewTextHandler(said, nil))})
		defer pools.Close()
		u := upstream("app.test:443")
		u.Guard = &model.Guard{}
		_ = pools.Set(u)
		synctest.Wait()
		if got := pools.Get("u").where(); got != "10.96.0.1:443" {
			t.Error(got)
		}
		u = upstream("app.test:443")
		u.Guard = &model.Guard{Refuse: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443")}}
		_ = pools.Set(u)
		if got := pools.Get("u").where(); got != "address_refused" || b.count() != 1 {
			t.Errorf("%s after %d lookups", got, b.count())
		}
		if n := strings.Count(said.String(), "address refused"); n != 1 || !strings.Contains(said.String(), "10.96.0.1:443, the address of the API server") {
			t.Errorf("said %d times: %s", n, said)
		}
	})
}

// to is a Dial that finds origins at addresses which are not theirs.
func to(origins map[string]*origin) func(string, time.Duration) (net.Conn, error) {
	return func(address string, timeout time.Duration) (net.Conn, error) {
		if origins[address] == nil {
			return nil, fmt.Errorf("nobody is at %s", address)
		}
		return net.DialTimeout("tcp", origins[address].addr, timeout)
	}
}

// TestNamesLeaveConnectionsAlone changes the addresses of a name: connections of one that stays are used again, those of one that left
// close when they idle.
func TestNamesLeaveConnectionsAlone(t *testing.T) {
	a, b := echo(t), echo(t)
	answers := make(chan []netip.Addr)
	pools := New(Settings{
		Dial: to(map[string]*origin{"192.0.2.1:80": a, "192.0.2.2:80": b}),
		Lookup: func(ctx context.Context, _ string) ([]netip.Addr, time.Duration, error) {
			select {
			case addrs := <-answers:
				return addrs, time.Second, nil
			case <-ctx.Done():
				return nil, 0, ctx.Err()
			}
		},
	})
	defer pools.Close()
	_ = pools.Set(upstream("app.test:80"))
	p := pools.Get("u")
	first := make(chan string)
	go func() { // before anything is known
		status, body, err := send(p, request("POST", "x"))
		first <- fmt.Sprint(status, " ", body, " ", err)
	}()
	answers <- addresses("192.0.2.1", "192.0.2.2")
	if got := <-first; got != fmt.Sprint("200 ", a.addr, " <nil>") && got != fmt.Sprint("200 ", b.addr, " <nil>") {
		t.Errorf("the request that waited: %s", got)
	}
	for range 4 {
		if status, _, err := send(p, request("GET", "")); status != 200 || err != nil {
			t.Fatal(status, err)
		}
	}
	stays, left := p.endpoint("192.0.2.2:80"), p.endpoint("192.0.2.1:80")
	answers <- addresses("192.0.2.2", "192.0.2.3")
	eventually(t, "the addresses are others", func() bool { return p.where() == "192.0.2.2:80 192.0.2.3:80" })
	if left.idle.len() != 0 || p.endpoint("192.0.2.2:80") != stays || p.endpoint("192.0.2.1:80") != nil {
		t.Error("an endpoint that left keeps connections, or one that stays is a new one")
	}
	answers <- addresses("192.0.2.2")
	eventually(t, "the addresses are others", func() bool { return p.where() == "192.0.2.2:80" })
	if status, body, err := send(p, request("GET", "")); status != 200 || body != b.addr || err != nil || b.accepted.Load() != 1 {
		t.Errorf("%d %s %v over %d connections", status, body, err, b.accepted.Load())
	}
}

// TestNameIsSentAsHost: the client's Host where it is kept, else the name, never an address of it.
func TestNameIsSentAsHost(t *testing.T) {
	o := serve(t, func(p *peer) {
		for q := p.next(); q != nil; q = p.next() {
			p.answer(q.Host)
		}
	})
	b := &book{}
	b.say(time.Hour, nil, "192.0.2.1")
	pools := New(Settings{Lookup: b.lookUp, Dial: to(map[string]*origin{"192.0.2.1:80": o})})
	defer pools.Close()
	for _, c := range []struct {
		endpoint model.Endpoint
		keep     bool
		want     string
	}{
		{model.Endpoint{Address: "origin.test:80"}, true, "app.test"},
		{model.Endpoint{Address: "origin.test:80"}, false, "origin.test:80"},
		{model.Endpoint{Address: "origin.test:80", Host: "origin.test"}, true, "origin.test"}, // a server written by hand
		{model.Endpoint{Address: "origin.test:80", Host: "origin.test", KeepHost: true}, false, "app.test"},
	} {
		_ = pools.Set(&model.Upstream{Name: "u", Endpoints: []model.Endpoint{c.endpoint}})
		x := request("GET", "")
		_, body, err := sendWith(pools.Get("u"), x, optionsOf(c.keep))
		if body != c.want || err != nil || x.Forward.Endpoint != "192.0.2.1:80" {
			t.Errorf("%+v, kept %t: Host %q at %s, %v", c.endpoint, c.keep, body, x.Forward.Endpoint, err)
		}
	}
}
