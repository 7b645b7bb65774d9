package upstream

import (
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/filter"
)

// busy forwards n requests at once and reads no answer yet: it returns how they went and what ends them.
func busy(t *testing.T, p *Pool, n int) (statuses map[int]int, finish func()) {
	t.Helper()
	statuses = map[int]int{}
	var open []*filter.Exchange
	for range n {
		x := request("GET", "")
		_ = p.Forward(x, filter.ForwardOptions{KeepHost: true}) // its status says it
		statuses[x.Response.Status]++
		open = append(open, x)
	}
	return statuses, func() {
		for _, x := range open {
			if x.Response.Body != nil {
				for buffer := make([]byte, 64); ; {
					if _, err := x.Response.Body.Read(buffer); err != nil {
						break
					}
				}
			}
		}
	}
}

func TestIdleConnectionsMakeRoom(t *testing.T) {
	a, b := echo(t), echo(t)
	pools := New(Settings{MaxConnections: 10})
	t.Cleanup(pools.Close)
	for name, o := range map[string]*origin{"a": a, "b": b} {
		u := upstream(o.addr)
		u.Name = name
		if err := pools.Set(u); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		for _, name := range []string{"a", "b"} {
			statuses, finish := busy(t, pools.Get(name), 9)
			if statuses[200] != 9 {
				t.Errorf("%s: %v", name, statuses)
			}
			finish()
			if n := pools.room.open.Load(); n > 10 {
				t.Errorf("%d connections", n)
			}
		}
	}
}

func TestMoreConnectionsThanRoom(t *testing.T) {
	o := echo(t)
	p := pool(t, Settings{MaxConnections: 4}, o.addr)
	statuses, finish := busy(t, p, 6)
	if statuses[200] != 4 || statuses[503] != 2 {
		t.Errorf("with room for 4: %v", statuses)
	}
	x := request("GET", "")
	if _, _, err := send(p, x); reasonOf(err) != "overloaded" {
		t.Errorf("reason %s", reasonOf(err))
	}
	finish()
	if status, _, err := send(p, request("GET", "")); status != 200 {
		t.Errorf("afterwards: %d %v", status, err)
	}
	if e := p.Status().Endpoints[0]; e.Broken != 0 || e.Ejected != nil {
		t.Errorf("the endpoint was blamed: %+v", e)
	}
}

func TestManyWantRoomAtOnce(t *testing.T) {
	o := echo(t)
	p := pool(t, Settings{MaxConnections: 8}, o.addr)
	_, finish := busy(t, p, 8)
	finish()
	p.room.open.Add(5) // so many are about to connect
	if !p.room.take() {
		t.Errorf("no room beside %d idle connections", p.endpoint(o.addr).idle.len())
	}
	p.room.open.Add(-6)
}

// TestEveryConnectionGivesItsPlaceUp: whatever the end of an exchange, nothing stays counted.
func TestEveryConnectionGivesItsPlaceUp(t *testing.T) {
	o := serve(t, func(p *peer) {
		for q := p.next(); q != nil; q = p.next() {
			switch q.Header.Get("X-Do") {
			case "reset":
				p.reset()
				return
			case "break":
				p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
				return
			case "garbage":
				p.say("what?")
				return
			case "tunnel":
				p.say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
			default:
				p.answer("ok")
			}
		}
	})
	pools := New(Settings{MaxConnections: 100})
	if err := pools.Set(upstream(o.addr, refused(t))); err != nil {
		t.Fatal(err)
	}
	for _, do := range []string{"", "reset", "break", "garbage", "tunnel"} {
		for range 4 {
			x := request("GET", "")
			x.Request.Header.Add("X-Do", do)
			if do == "tunnel" {
				x.Request.Upgrade = "websocket"
			}
			_, _, _ = send(pools.Get("u"), x) // its end is what counts
			if x.Response.Tunnel != nil {
				x.Response.Tunnel.Close()
				x.Response.Tunnel.Close()
			}
		}
	}
	pools.Close()
	if n := pools.room.open.Load(); n != 0 {
		t.Errorf("%d connections are still counted", n)
	}
}

func TestWantOfDescriptorsClosesIdleConnections(t *testing.T) {
	o := echo(t)
	var want atomic.Bool
	pools := New(Settings{Dial: func(address string, timeout time.Duration) (net.Conn, error) {
		if want.Swap(false) {
			return nil, &net.OpError{Op: "dial", Err: syscall.EMFILE}
		}
		return dial(address, timeout)
	}})
	t.Cleanup(pools.Close)
	for _, name := range []string{"a", "b"} {
		u := upstream(o.addr)
		u.Name = name
		if err := pools.Set(u); err != nil {
			t.Fatal(err)
		}
	}
	_, finish := busy(t, pools.Get("a"), 8)
	finish()
	want.Store(true)
	if status, _, err := send(pools.Get("b"), request("GET", "")); status != 200 {
		t.Errorf("%d %v, with descriptors that nobody used", status, err)
	}
	if n := pools.Get("a").endpoint(o.addr).idle.len(); n != 4 {
		t.Errorf("%d idle connections are left of 8", n)
	}
}
