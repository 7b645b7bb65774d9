package upstream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The stale keep-alive race: an origin that closes idle connections just as they are used again. Nobody may notice.
func TestStaleKeepAliveRace(t *testing.T) {
	for _, endpoints := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d endpoints", endpoints), func(t *testing.T) {
			var addresses []string
			for range endpoints {
				addresses = append(addresses, serve(t, func(p *peer) {
					for p.next() != nil {
						p.answer("ok")
						_ = p.SetReadDeadline(time.Now().Add(rand.N(5 * time.Millisecond)))
						if _, err := p.r.Peek(1); err != nil {
							return
						}
						_ = p.SetReadDeadline(time.Now().Add(5 * time.Second))
					}
				}).addr)
			}
			p := pool(t, Settings{}, addresses...)
			var clients sync.WaitGroup
			var retries atomic.Int64
			for range 8 {
				clients.Go(func() {
					for range 150 {
						x := request("GET", "")
						if status, _, err := send(p, x); status != 200 || err != nil {
							t.Errorf("%d %v", status, err)
							return
						}
						retries.Add(int64(x.Forward.Attempts - 1))
						<-time.After(rand.N(5 * time.Millisecond))
					}
				})
			}
			clients.Wait()
			if retries.Load() == 0 {
				t.Error("no connection was stale: the test does not test")
			}
		})
	}
}

// Endpoints come and go while requests run: whoever is removed goes on serving what it has, so nothing may fail.
func TestChurnLosesNothing(t *testing.T) {
	var all []string
	for range 6 {
		all = append(all, echo(t).addr)
	}
	pools := New(Settings{})
	defer pools.Close()
	_ = pools.Set(upstream(all...))
	p := pools.Get("u")
	stop := make(chan bool)
	var clients sync.WaitGroup
	var served atomic.Int64
	for range 8 {
		clients.Go(func() {
			x := request("POST", "x")
			for {
				select {
				case <-stop:
					return
				default:
				}
				fresh := request("POST", "x")
				fresh.Memory = x.Memory
				x = fresh
				if status, body, err := send(p, x); status != 200 || err != nil || !slices.Contains(all, body) {
					t.Errorf("%d %v", status, err)
					return
				}
				served.Add(1)
			}
		})
	}
	for range 300 {
		u := upstream(all[rand.IntN(3) : 3+rand.IntN(4)]...)
		for i := range u.Endpoints {
			u.Endpoints[i].Terminating = rand.IntN(3) == 0
		}
		_ = pools.Set(u)
		<-time.After(time.Millisecond)
	}
	close(stop)
	clients.Wait()
	for _, e := range p.Status().Endpoints {
		if e.InFlight != 0 {
			t.Errorf("%d in flight at %s at rest", e.InFlight, e.Address)
		}
	}
	t.Log(served.Load(), "requests")
}

// An endpoint that is killed while it serves: what it had begun is lost, the rest is not noticed by anyone who sends GET.
func TestKilledEndpoint(t *testing.T) {
	good, victim := echo(t), echo(t)
	p := pool(t, Settings{}, good.addr, victim.addr)
	for range 10 {
		_, _, _ = send(p, request("GET", ""))
	}
	victim.kill()
	for range 200 {
		x := request("GET", "")
		if status, body, err := send(p, x); status != 200 || err != nil || body != good.addr {
			t.Fatal(status, body, err, x.Forward)
		}
	}
}
