package engine

import (
	"bytes"
	"net"
	"testing"

	"sluice.dev/sluice/model"
)

const browserRequest = "GET /static/app.js?v=12345 HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
	"Accept: */*\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\nReferer: https://www.example.com/\r\nConnection: keep-alive\r\n" +
	"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\nSec-Fetch-Dest: script\r\nSec-Fetch-Mode: no-cors\r\nSec-Fetch-Site: same-origin\r\nPragma: no-cache\r\nCache-Control: no-cache\r\n\r\n"

const plainResponse = "HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nServer: origin\r\nContent-Type: text/plain\r\nContent-Length: 128\r\nConnection: keep-alive\r\n\r\n" +
	"0123456789012345678901234567890123456789012345678901234567890123" + "0123456789012345678901234567890123456789012345678901234567890123"

// rawOrigin answers every head with the same bytes and allocates nothing per request.
func rawOrigin(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() {
				buffer, end, answer := make([]byte, 8192), []byte("\r\n\r\n"), []byte(plainResponse)
				for n := 0; ; {
					got, err := conn.Read(buffer[n:])
					if err != nil {
						return
					}
					if n += got; bytes.HasSuffix(buffer[:n], end) {
						n = 0
						conn.Write(answer)
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// exchangeOf returns a function that sends one request over an open connection and reads the response, itself without
// allocating.
func exchangeOf(t testing.TB, e *Engine) func() {
	conn := dial(t, e)
	request, buffer := []byte(browserRequest), make([]byte, 8192)
	tail := []byte(plainResponse[len(plainResponse)-128:])
	return func() {
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(buffer[:n], tail); {
			got, err := conn.Read(buffer[n:])
			if err != nil {
				t.Fatal(err)
			}
			n += got
		}
	}
}

func TestAProxiedGETAllocatesLittle(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates too")
	}
	e := newTestEngine(t, Settings{})
	e.Apply(withUpstream(one(model.KindProxy), rawOrigin(t)))
	run := exchangeOf(t, e)
	for range 100 {
		run()
	}
	if n := testing.AllocsPerRun(2000, run); n > 8 {
		t.Errorf("%v allocations for a proxied GET", n)
	} else {
		t.Logf("%v allocations", n)
	}
}

func BenchmarkProxiedGET(b *testing.B) {
	e := newTestEngine(b, Settings{})
	e.Apply(withUpstream(one(model.KindProxy), rawOrigin(b)))
	run := exchangeOf(b, e)
	run()
	b.ReportAllocs()
	for b.Loop() {
		run()
	}
}

func BenchmarkApplyOneOf10000Hosts(b *testing.B) {
	e := newTestEngine(b, Settings{})
	c := hosts(10000, "127.0.0.1:1")
	e.Apply(c)
	rules := []*model.Rule{ruleFor("h77.example", "/a"), ruleFor("h77.example", "/b")}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c = with(c, rules[i%2])
		if o := e.Apply(c); len(o.Problems) > 0 {
			b.Fatal(o.Problems)
		}
	}
}

func BenchmarkApplyEndpointsOneOf10000(b *testing.B) {
	e := newTestEngine(b, Settings{})
	c := hosts(10000, "127.0.0.1:1")
	e.Apply(c)
	ups := []*model.Upstream{
		{Name: "h77.example", Endpoints: []model.Endpoint{{Address: "127.0.0.1:1"}}},
		{Name: "h77.example", Endpoints: []model.Endpoint{{Address: "127.0.0.1:2"}}},
	}
	for i := 0; b.Loop(); i++ {
		next := *c
		next.Upstreams = c.Upstreams.With("h77.example", ups[i%2])
		c = &next
		e.Apply(c)
	}
}
