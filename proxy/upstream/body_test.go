package upstream

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/telemetry"
)

func TestLargeUploadsReuseTheirConnection(t *testing.T) {
	o := serve(t, func(p *peer) {
		for q := p.next(); q != nil; q = p.next() {
			body, _ := io.ReadAll(q.Body)
			p.answer(fmt.Sprintf("%x", sha256.Sum256(body)))
		}
	})
	p := pool(t, Settings{}, o.addr)
	body := make([]byte, 3<<20)
	for i := range body {
		body[i] = byte(rand.Uint32())
	}
	want := fmt.Sprintf("%x", sha256.Sum256(body))
	for _, length := range []int64{int64(len(body)), message.Unknown} {
		x := request("POST", "")
		x.Request.Body, x.Request.Length = later{bytes.NewReader(body)}, length
		if status, got, err := send(p, x); status != 200 || got != want || err != nil {
			t.Fatal(status, got, err)
		}
	}
	if n := o.accepted.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A12: an origin that answers before it has the body is heard at once, and its connection used no more.
func TestA12_EarlyAnswer(t *testing.T) {
	over := make(chan bool)
	o := serve(t, func(p *peer) {
		if _, err := http.ReadRequest(p.r); err != nil {
			return
		}
		p.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
		<-over
	})
	defer close(over)
	p := pool(t, Settings{}, o.addr)
	x := request("POST", "")
	source, writer := io.Pipe()
	defer writer.Close()
	x.Request.Body, x.Request.Length = later{source}, 100
	if status, _, err := send(p, x); status != 413 || err != nil {
		t.Fatal(status, err)
	}
	if e := p.endpoint(o.addr); e.idle.len() != 0 || e.inFlight.Load() != 0 {
		t.Errorf("%d idle, %d in flight", e.idle.len(), e.inFlight.Load())
	}
}

// A body that came in pieces is sent again as long as all of it was kept.
func TestBodyThatIsStreamedIsReplayed(t *testing.T) {
	o := serve(t, func(p *peer) {
		for n := 0; ; n++ {
			q := p.next()
			if q == nil {
				return
			}
			if n == 1 {
				p.reset()
				return
			}
			body, _ := io.ReadAll(q.Body)
			p.answer(string(body))
		}
	})
	p := pool(t, Settings{}, o.addr)
	for _, length := range []int64{message.Unknown, 5} {
		if _, _, err := send(p, request("GET", "")); err != nil {
			t.Fatal(err)
		}
		x := request("PUT", "")
		x.Request.Body, x.Request.Length = later{strings.NewReader("piece")}, length
		if status, body, err := send(p, x); status != 200 || body != "piece" || err != nil || x.Forward.Attempts != 2 {
			t.Fatal(status, body, err, x.Forward)
		}
		if _, _, err := send(p, request("GET", "")); err != nil { // the next PUT meets a new connection's second request
			t.Fatal(err)
		}
		p.close()
		p = pool(t, Settings{}, o.addr)
	}
}

func TestRequestBodyAgain(t *testing.T) {
	read := func(b *requestBody, n int64) string {
		got, _ := io.ReadAll(io.LimitReader(b, n))
		return string(got)
	}
	of := func(method, body string) *message.Request { return request(method, body).Request }
	b := bodyFor(of("PUT", "0123456789"))
	if got := read(b, 4); got != "0123" {
		t.Fatal(got)
	}
	next := b.again()
	if got := read(next, 100); got != "0123456789" {
		t.Errorf("again gave %q", got)
	}
	if got := read(b, 100); got != "" {
		t.Errorf("the attempt before reads on: %q", got)
	}
	if got := read(next.again(), 100); got != "0123456789" {
		t.Errorf("again and again gave %q", got)
	}
	unread := bodyFor(of("POST", words(80<<10)))
	if next = unread.again(); next == nil || len(read(next, 1<<20)) != 80<<10 {
		t.Error("a body that was not read is whole")
	}
	if next.again() != nil {
		t.Error("a body over the limit was kept")
	}
	failed := bodyFor(of("PUT", ""))
	failed.source = &memory{broken: io.ErrUnexpectedEOF}
	if read(failed, 1); failed.again() != nil {
		t.Error("a body that broke off is sent again")
	}
}

func TestMetrics(t *testing.T) {
	metrics := telemetry.New()
	good := echo(t)
	p := pool(t, Settings{Metrics: metrics}, good.addr, refused(t))
	for range 20 {
		if _, _, err := send(p, request("GET", "")); err != nil {
			t.Fatal(err)
		}
	}
	families, err := metrics.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()) + m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"sluice_upstream_requests_total": 20, "sluice_upstream_retries_total": 3, "sluice_upstream_ejections_total": 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v; there is %v", name, got[name], want, got)
		}
	}
}

func TestInterimResponsesArePassedOn(t *testing.T) {
	o := serve(t, func(p *peer) {
		for p.next() != nil {
			p.say("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	x := request("GET", "")
	if err := pool(t, Settings{}, o.addr).Forward(x, filter.ForwardOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := x.Stream.(*stream).interims; len(got) != 1 || got[0] != 103 {
		t.Errorf("%v", got)
	}
}
