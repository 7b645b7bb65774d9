package h1

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// bubble is a Server on pipes, for tests in which time is not real.
type bubble struct {
	sync.WaitGroup // whoever must end before the test does
	server         *Server
	refusals       []string
}

func inBubble(set Settings, handler message.Handler) *bubble {
	b := &bubble{}
	b.server = &Server{Handler: handler, poison: true, Settings: func() *Settings { return &set }}
	b.server.Refuse = func(_ *message.Conn, r *Refusal) *message.Response {
		b.refusals = append(b.refusals, r.Reason.String())
		return nil
	}
	return b
}

func (b *bubble) dial() net.Conn {
	client, server := net.Pipe()
	b.Go(func() { b.server.Serve(server, &message.Conn{Peer: "pipe"}) })
	return client
}

// pause lets the time of a bubble pass.
func pause(d time.Duration) { <-time.After(d) }

// within fails the test unless the time since start is between least and most.
func within(t *testing.T, what string, start time.Time, least, most time.Duration) {
	t.Helper()
	if took := time.Since(start); took < least || took > most {
		t.Errorf("%s took %s, want %s to %s", what, took, least, most)
	}
}

func TestH1_SlowHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(*DefaultSettings(), echo)
		defer b.Wait()
		nc := b.dial()
		start := time.Now()
		b.Go(func() {
			for _, c := range "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: " + strings.Repeat("a", 100) {
				if _, err := io.WriteString(nc, string(c)); err != nil {
					return
				}
				pause(time.Second)
			}
		})
		r, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil || r.StatusCode != 408 || !r.Close {
			t.Fatalf("%v %v", r, err)
		}
		within(t, "the refusal", start, 10*time.Second, 11*time.Second)
		if !slices.Equal(b.refusals, []string{"head_timeout"}) {
			t.Error(b.refusals)
		}
	})
}

func TestIdleConnectionCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(*DefaultSettings(), echo)
		defer b.Wait()
		nc := b.dial()
		start := time.Now()
		if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		within(t, "the end", start, time.Minute, 75*time.Second)

		nc = b.dial()
		reader := bufio.NewReader(nc)
		for range 10 { // used all the time it stays, although the deadline moves but now and then
			pause(50 * time.Second)
			if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}
		start = time.Now()
		if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		within(t, "the end", start, time.Minute, 75*time.Second)
		if len(b.refusals) > 0 {
			t.Error(b.refusals)
		}
	})
}

func TestH1_SlowBody(t *testing.T) {
	for name, c := range map[string]struct {
		every, least, most time.Duration
	}{
		"silent":   {time.Hour, time.Minute, 76 * time.Second},
		"trickles": {10 * time.Second, time.Minute, 3 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				results := make(chan error, 1)
				b := inBubble(*DefaultSettings(), func(s message.Stream) {
					_, err := io.Copy(io.Discard, s.Request().Body)
					results <- err
					_, _ = s.Respond(&message.Response{Status: 408})
				})
				defer b.Wait()
				nc := b.dial()
				start := time.Now()
				b.Go(func() {
					_, err := io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
					for err == nil {
						pause(c.every)
						_, err = io.WriteString(nc, "x")
					}
				})
				var broken *message.BodyError
				if err := <-results; !errors.As(err, &broken) || broken.Reason != message.BodyTimeout {
					t.Error(err)
				}
				within(t, "the end of the body", start, c.least, c.most)
				r, err := http.ReadResponse(bufio.NewReader(nc), nil)
				if err != nil || r.StatusCode != 408 || !r.Close {
					t.Errorf("%v %v", r, err)
				}
				nc.Close()
			})
		})
	}
}

func TestSteadyBodyMayTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(*DefaultSettings(), echo)
		defer b.Wait()
		nc := b.dial()
		b.Go(func() {
			_, _ = io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n")
			for range 100 {
				pause(30 * time.Second)
				_, _ = io.WriteString(nc, strings.Repeat("x", 1000))
			}
		})
		r, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%v %v", r, err)
		}
		if body, err := io.ReadAll(r.Body); err != nil || strings.Count(string(body), "x") != 100000 {
			t.Errorf("%d %v", len(body), err)
		}
	})
}

func TestH1_ReaderThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := make(chan error, 1)
		b := inBubble(*DefaultSettings(), func(s message.Stream) {
			_, err := s.Respond(textResponse(200, strings.Repeat("x", 1<<20)))
			results <- err
		})
		defer b.Wait()
		nc := b.dial()
		if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(nc, make([]byte, 50000)); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := <-results; !errors.Is(err, message.ErrClientGone) {
			t.Error(err)
		}
		within(t, "the end", start, time.Minute, 151*time.Second) // two times, since a part of the last write was taken
	})
}

func TestSlowReaderMayTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := make(chan error, 1)
		b := inBubble(*DefaultSettings(), func(s message.Stream) {
			_, err := s.Respond(textResponse(200, strings.Repeat("x", 200000)))
			results <- err
		})
		defer b.Wait()
		nc := b.dial()
		if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		b.Go(func() {
			for err := error(nil); err == nil; pause(30 * time.Second) {
				_, err = nc.Read(make([]byte, 5000))
			}
		})
		if err := <-results; err != nil {
			t.Error(err)
		}
		nc.Close()
	})
}

func TestProbeWaitsForTheFirstChunkOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		b := inBubble(*DefaultSettings(), func(s message.Stream) {
			probe := s.Request().Body.(message.Prober)
			start := time.Now()
			if err := probe.Probe(time.Second); err != nil {
				t.Error(err)
			}
			within(t, "a probe of nothing", start, time.Second, time.Second)
			close(goOn)
			start = time.Now()
			if err := probe.Probe(time.Second); err != nil {
				t.Error(err)
			}
			within(t, "a probe of a chunk size", start, 300*time.Millisecond, 300*time.Millisecond)
			if body, err := io.ReadAll(s.Request().Body); err != nil || string(body) != "abc" {
				t.Errorf("%q %v", body, err)
			}
			if err := probe.Probe(time.Second); err != nil {
				t.Error(err)
			}
			_, _ = s.Respond(textResponse(200, "ok"))
		})
		defer b.Wait()
		nc := b.dial()
		b.Go(func() {
			_, _ = io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3")
			<-goOn
			pause(300 * time.Millisecond)
			_, _ = io.WriteString(nc, "\r\n")
			pause(30 * time.Second)
			_, _ = io.WriteString(nc, "abc\r\n0\r\n\r\n")
		})
		if r, err := http.ReadResponse(bufio.NewReader(nc), nil); err != nil || r.StatusCode != 200 {
			t.Errorf("%v %v", r, err)
		}
	})
}

func TestProbeAsksNobodyWhoWaitsForContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(*DefaultSettings(), func(s message.Stream) {
			start := time.Now()
			if err := s.Request().Body.(message.Prober).Probe(time.Second); err != nil {
				t.Error(err)
			}
			within(t, "the probe", start, 0, 0)
			_, _ = s.Respond(textResponse(200, "ok"))
		})
		defer b.Wait()
		nc := b.dial()
		_, _ = io.WriteString(nc, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
		if r, err := http.ReadResponse(bufio.NewReader(nc), nil); err != nil || r.StatusCode != 200 || !r.Close {
			t.Errorf("%v %v", r, err)
		}
		nc.Close()
	})
}

func TestOriginThatStallsInTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b sync.WaitGroup
		defer b.Wait()
		near, far := net.Pipe()
		set := *DefaultClientSettings()
		set.BodyTimeout = 20 * time.Second
		c := NewClient(near, &set)
		b.Go(func() {
			_, _ = http.ReadRequest(bufio.NewReader(far))
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc")
		})
		if err := c.Send(get("/"), "a"); err != nil {
			t.Fatal(err)
		}
		var r message.Response
		if err := c.Receive(&r, &watcher{}, time.Minute); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		got, err := io.ReadAll(r.Body)
		var broken *message.BodyError
		if !errors.As(err, &broken) || broken.Reason != message.UpstreamTimeout || string(got) != "abc" {
			t.Errorf("%q %v", got, err)
		}
		within(t, "the end", start, 20*time.Second, 40*time.Second)
	})
}

func TestTheOriginsTimeBeginsWhenItHasTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b sync.WaitGroup
		defer b.Wait()
		near, far := net.Pipe()
		c := NewClient(near, nil)
		b.Go(func() {
			r, _ := http.ReadRequest(bufio.NewReader(far))
			_, _ = io.Copy(io.Discard, r.Body)
			pause(20 * time.Second)
			_, _ = io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		})
		pieces := make(chan string)
		b.Go(func() {
			for range 10 {
				pause(10 * time.Second)
				pieces <- "piece"
			}
			close(pieces)
		})
		r := get("/")
		r.Method, r.Length, r.Body = "POST", message.Unknown, &piecemeal{pieces: pieces}
		if err := c.Send(r, "a"); err != nil {
			t.Fatal(err)
		}
		var response message.Response
		if err := c.Receive(&response, nil, 30*time.Second); err != nil {
			t.Fatal(err)
		}
		if !c.Reusable() {
			t.Error("not reusable")
		}
	})
}

func TestDrainLeavesTimeForOneMoreRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := inBubble(*DefaultSettings(), echo)
		defer b.Wait()
		asks, silent := b.dial(), b.dial()
		synctest.Wait()
		start := time.Now()
		b.server.Drain()
		b.Go(func() {
			pause(900 * time.Millisecond)
			_, _ = io.WriteString(asks, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		})
		if r, err := http.ReadResponse(bufio.NewReader(asks), nil); err != nil || r.StatusCode != 200 || !r.Close {
			t.Errorf("%v %v", r, err)
		}
		asks.Close()
		if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		within(t, "the end of the silent one", start, time.Second, time.Second)
	})
}
