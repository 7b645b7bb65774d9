package h1

import (
	"bytes"
	"net"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/message"
)

const browserHead = "GET /api/items?id=42&sort=name HTTP/1.1\r\nHost: www.example.com\r\nConnection: keep-alive\r\n" +
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, br\r\n" +
	"Accept-Language: en-US,en;q=0.9\r\nCookie: session=0123456789abcdef; theme=dark\r\nCache-Control: max-age=0\r\n\r\n"

const smallAnswer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\nContent-Length: 128\r\n\r\n" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// replay answers every request head on a connection with the same bytes.
func replay(t testing.TB, answer string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	bytesOfAnswer := []byte(answer)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				buf, n := make([]byte, 64<<10), 0
				for {
					m, err := nc.Read(buf[n:])
					if err != nil {
						return
					}
					if n += m; bytes.HasSuffix(buf[:n], endOfHead) {
						n = 0
						if _, err := nc.Write(bytesOfAnswer); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// relay is a proxy of the codec alone: one origin, one connection to it for each of the client's.
func relay(t testing.TB, origin string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{}
	t.Cleanup(func() { l.Close(); s.Close() })
	clients := make(chan *Client, 64)
	s.Handler = func(stream message.Stream) {
		var c *Client
		select {
		case c = <-clients:
		default:
			nc, err := net.Dial("tcp", origin)
			if err != nil {
				return
			}
			c = NewClient(nc, nil)
		}
		r, ok := stream.Conn().Traits.(*message.Response)
		if !ok {
			return
		}
		if c.Send(stream.Request(), stream.Request().Authority) != nil || c.Receive(r, stream, time.Minute) != nil {
			return
		}
		if _, err := stream.Respond(r); err == nil && c.Reusable() {
			clients <- c
		}
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go s.Serve(nc, &message.Conn{Peer: "127.0.0.1", Traits: &message.Response{}})
		}
	}()
	return l.Addr().String()
}

// exchange returns a function that does one GET over one connection and allocates nothing itself.
func exchange(t testing.TB, addr string) func() {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	request, buf := []byte(browserHead), make([]byte, 64<<10)
	return func() {
		if _, err := nc.Write(request); err != nil {
			t.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(buf[:n], []byte("89abcdef")); {
			m, err := nc.Read(buf[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += m
		}
	}
}

func TestAllocationsOfAProxiedGet(t *testing.T) {
	get := exchange(t, relay(t, replay(t, smallAnswer)))
	for range 10 {
		get()
	}
	if n := testing.AllocsPerRun(500, get); n > 3 {
		t.Errorf("%v allocations, budget 3", n)
	}
}

func BenchmarkProxiedGet(b *testing.B) {
	get := exchange(b, relay(b, replay(b, smallAnswer)))
	b.ReportAllocs()
	for b.Loop() {
		get()
	}
}

func BenchmarkParseRequest(b *testing.B) {
	var p requestHead
	var r message.Request
	set := DefaultSettings()
	b.ReportAllocs()
	for b.Loop() {
		p.reset(&r, set, "http")
		if f := p.parse(browserHead); f.bad() {
			b.Fatal(f)
		}
	}
}
