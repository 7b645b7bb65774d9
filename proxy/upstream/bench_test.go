package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/wire/h1"
)

// instant is a session that answers at once, to measure the pool alone.
type instant struct{}

func (instant) Send(*message.Request, string) error { return nil }
func (instant) Receive(r *message.Response, _ h1.Peer, _ time.Duration) error {
	r.Status = 200
	return nil
}
func (instant) Wrote() bool    { return true }
func (instant) Received() bool { return true }
func (instant) Reusable() bool { return true }
func (instant) Close()         {}

func instantPool(b testing.TB, addresses ...string) *Pool {
	p := pool(b, Settings{}, addresses...)
	for _, m := range p.current.Load().members {
		for range 64 {
			m.idle.push(&conn{session: instant{}, room: p.room, idleSince: time.Now().Add(time.Hour)}, 64)
		}
	}
	return p
}

func BenchmarkPickAcquireRelease(b *testing.B) {
	p := instantPool(b, "192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80")
	b.Run("one goroutine", func(b *testing.B) {
		b.ReportAllocs()
		x := request("GET", "")
		for b.Loop() {
			if p.Forward(x, filter.ForwardOptions{KeepHost: true}) != nil {
				b.Fatal(x.Reason)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			x := request("GET", "")
			for pb.Next() {
				if p.Forward(x, filter.ForwardOptions{KeepHost: true}) != nil {
					b.Error(x.Reason)
				}
			}
		})
	})
}

// raw answers every head with the same 128 bytes and allocates nothing.
func raw(tb testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 128\r\n\r\n" + words(128))
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 16<<10)
				for n := 0; ; {
					m, err := c.Read(buf[n:])
					if err != nil {
						return
					}
					if n += m; bytes.HasSuffix(buf[:n], []byte("\r\n\r\n")) {
						n = 0
						_, _ = c.Write(answer)
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// forwardGet returns a function that forwards one GET and reads its answer.
func forwardGet(tb testing.TB) func() {
	p := pool(tb, Settings{}, raw(tb))
	x := request("GET", "")
	buf := make([]byte, 4096)
	return func() {
		x.Reset(x.Stream)
		if err := p.Forward(x, filter.ForwardOptions{KeepHost: true}); err != nil {
			tb.Fatal(err)
		}
		for {
			_, err := x.Response.Body.Read(buf)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				tb.Fatal(err)
			}
		}
		x.Response.Body.Close()
	}
}

func TestAllocationsOfAForwardedGet(t *testing.T) {
	get := forwardGet(t)
	get()
	if n := testing.AllocsPerRun(500, get); n > 2 {
		t.Errorf("%v allocations for a forwarded GET, want the codec's 2 at most and none of the pool's", n)
	}
	p := instantPool(t, "192.0.2.1:80", "192.0.2.2:80")
	x := request("GET", "")
	if n := testing.AllocsPerRun(500, func() { _ = p.Forward(x, filter.ForwardOptions{KeepHost: true}) }); n > 0 {
		t.Errorf("%v allocations of the pool, want none", n)
	}
}

func BenchmarkForwardedGet(b *testing.B) {
	get := forwardGet(b)
	b.ReportAllocs()
	for b.Loop() {
		get()
	}
}
