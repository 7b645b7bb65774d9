package upstream

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/filter"
)

// clocked is a pool with a clock of the test's and endpoints that a function dials.
type clocked struct {
	*Pool
	offset atomic.Int64
	dials  sync.Map // by address: number
}

func withClock(t *testing.T, s Settings, broken func(address string) error, addresses ...string) *clocked {
	c := &clocked{}
	s.Now = func() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }
	s.Dial = func(address string, timeout time.Duration) (net.Conn, error) {
		n, _ := c.dials.LoadOrStore(address, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		if err := broken(address); err != nil {
			return nil, err
		}
		return dial(address, timeout)
	}
	c.Pool = pool(t, s, addresses...)
	return c
}

func (c *clocked) dialled(address string) int64 {
	n, ok := c.dials.Load(address)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

func (c *clocked) pass(d time.Duration) { c.offset.Add(int64(d)) }

func TestEjection(t *testing.T) {
	good, dead := echo(t), "192.0.2.1:80"
	p := withClock(t, Settings{}, func(address string) error {
		if address == dead {
			return syscall.ECONNREFUSED
		}
		return nil
	}, good.addr, dead)
	many := func() {
		t.Helper()
		for range 50 {
			if status, _, err := send(p.Pool, request("POST", "x")); status != 200 || err != nil {
				t.Fatal(status, err)
			}
		}
	}
	many()
	if n := p.dialled(dead); n != 3 {
		t.Fatalf("%d attempts before the ejection, want 3", n)
	}
	for i, length := range []time.Duration{5, 10, 20, 40, 80, 120, 120} {
		p.pass(length*time.Second - time.Second)
		before := p.dialled(dead)
		many()
		if n := p.dialled(dead) - before; n != 0 {
			t.Fatalf("ejection %d is over before %d s: %d attempts", i, length, n)
		}
		p.pass(2 * time.Second)
		many()
		if n := p.dialled(dead) - before; n != 1 {
			t.Fatalf("%d attempts after ejection %d, want one that ejects again", n, i)
		}
	}
	p.pass(10 * time.Minute)
	before := p.dialled(dead)
	many()
	p.pass(6 * time.Second)
	many()
	if n := p.dialled(dead) - before; n != 2 {
		t.Errorf("%d attempts: after a long while the doubling begins anew", n)
	}
}

func TestEjectionNeverTakesTheLastAndPanics(t *testing.T) {
	var down sync.Map
	a, b, c := echo(t), echo(t), echo(t)
	all := []string{a.addr, b.addr, c.addr}
	p := withClock(t, Settings{Retry: Retry{Burst: 10000}}, func(address string) error {
		if _, ok := down.Load(address); ok {
			return syscall.ECONNREFUSED
		}
		return nil
	}, all...)
	for _, address := range all {
		down.Store(address, true)
	}
	for range 20 {
		if status, _, _ := send(p.Pool, request("GET", "")); status != 502 {
			t.Fatal(status)
		}
	}
	ejected := 0
	for _, e := range p.Status().Endpoints {
		if e.Ejected != nil {
			ejected++
		}
	}
	if ejected != 2 {
		t.Errorf("%d of 3 ejected, want all but the last", ejected)
	}
	down.Clear() // more than half are ejected, so ejection is ignored at once
	seen := map[string]int{}
	for range 9 {
		_, body, err := send(p.Pool, request("GET", ""))
		if err != nil {
			t.Fatal(err)
		}
		seen[body]++
	}
	if len(seen) != 3 {
		t.Errorf("in panic all endpoints serve: %v", seen)
	}
}

func TestFailureCodesEject(t *testing.T) {
	bad := serve(t, func(p *peer) {
		for p.next() != nil {
			p.say("HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\n\r\n")
		}
	})
	good := echo(t)
	for name, c := range map[string]struct {
		codes []int
		want  int64
	}{"by default only 5xx": {nil, 20}, "as told": {[]int{418}, 5}} {
		t.Run(name, func(t *testing.T) {
			p := pool(t, Settings{}, bad.addr, good.addr)
			before := bad.requests.Load()
			for range 40 {
				if _, _, err := sendWith(p, request("GET", ""), filter.ForwardOptions{FailureCodes: c.codes}); err != nil {
					t.Fatal(err)
				}
			}
			if n := bad.requests.Load() - before; n != c.want {
				t.Errorf("%d requests to the failing one, want %d", n, c.want)
			}
		})
	}
}

func TestWantOfDescriptorsBlamesNobody(t *testing.T) {
	p := withClock(t, Settings{}, func(string) error {
		return &net.OpError{Op: "dial", Err: syscall.EMFILE}
	}, "192.0.2.1:80", "192.0.2.2:80")
	for range 10 {
		x := request("GET", "")
		if status, _, err := send(p.Pool, x); status != 503 || reasonOf(err) != "overloaded" || !errors.Is(err, syscall.EMFILE) || x.Forward.Attempts != 1 {
			t.Fatal(status, err, x.Forward)
		}
	}
	for _, e := range p.Status().Endpoints {
		if e.Broken != 0 || e.Ejected != nil {
			t.Errorf("blamed: %+v", e)
		}
	}
}

// When all endpoints are in trouble, retries must not multiply the attempts.
func TestRetryBudgetPreventsStorms(t *testing.T) {
	p := withClock(t, Settings{Retry: Retry{Burst: 20}}, func(string) error { return syscall.ECONNREFUSED },
		"192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80", "192.0.2.4:80")
	const requests = 1000
	attempts := 0
	for range requests {
		x := request("GET", "")
		_, _, _ = send(p.Pool, x)
		attempts += x.Forward.Attempts
	}
	retries := attempts - requests
	if most := requests/5 + 20 + 40; retries > most { // 20 %, the burst, what a few seconds earn, and the free ones of the start
		t.Errorf("%d retries for %d requests, want at most %d", retries, requests, most)
	}
	if retries < requests/5 {
		t.Errorf("%d retries: the budget was not used", retries)
	}
}

func TestBudgetPerSecond(t *testing.T) {
	var b budget
	now := time.Unix(0, 0)
	b.fill(&Retry{Percent: 20, PerSecond: 10, Burst: 3}, now)
	spend := func() (n int) {
		for b.spend(now) {
			n++
		}
		return n
	}
	if n := spend(); n != 3 {
		t.Errorf("%d at once, want the burst of 3", n)
	}
	now = now.Add(100 * time.Millisecond)
	if n := spend(); n != 1 {
		t.Errorf("%d after 100ms, want 1 of 10 per second", n)
	}
	for range 10 {
		b.earn()
	}
	if n := spend(); n != 2 {
		t.Errorf("%d after 10 requests, want 2", n)
	}
	now = now.Add(time.Hour)
	if n := spend(); n != 3 {
		t.Errorf("%d after an hour, want no more than the burst", n)
	}
}
