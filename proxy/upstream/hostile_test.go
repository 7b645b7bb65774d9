package upstream

import (
	"fmt"
	"net"
	"testing"
)

// A14: what an origin says wrong becomes 502; nothing of it reaches the client and the connection goes.
func TestA14_MalformedResponses(t *testing.T) {
	for name, c := range map[string]struct{ answer, reason string }{
		"length and coding":  {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "upstream_ambiguous_framing"},
		"two lengths":        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "upstream_ambiguous_framing"},
		"chunked twice":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "upstream_ambiguous_framing"},
		"not HTTP":           {"SSH-2.0-OpenSSH\r\n", "upstream_malformed"},
		"status 99":          {"HTTP/1.1 099 What\r\n\r\n", "upstream_malformed"},
		"CR in a value":      {"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n", "upstream_malformed"},
		"a 101 not asked":    {"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "upstream_malformed"},
		"eleven interims":    {words(0) + interims(11) + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "upstream_malformed"},
		"a body behind 204":  {"HTTP/1.1 204 No Content\r\n\r\nbody", "upstream_malformed"},
		"space before colon": {"HTTP/1.1 200 OK\r\nX : a\r\n\r\n", "upstream_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			o := serve(t, func(p *peer) {
				for p.next() != nil {
					p.say(c.answer)
				}
			})
			p := pool(t, Settings{}, o.addr)
			x := request("GET", "")
			status, body, err := send(p, x)
			if status != 502 || body != "" || reasonOf(err) != c.reason {
				t.Errorf("%d %q %v, want 502 for %s", status, body, err, c.reason)
			}
			if e := p.endpoint(o.addr); e.idle.len() != 0 || o.requests.Load() != 1 {
				t.Errorf("%d connections kept, %d requests", e.idle.len(), o.requests.Load())
			}
		})
	}
}

func interims(n int) (text string) {
	for range n {
		text += "HTTP/1.1 103 Early Hints\r\n\r\n"
	}
	return text
}

// A15: bytes behind a response never become the next one's.
func TestA15_GarbageBehindAResponse(t *testing.T) {
	const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
	for _, together := range []bool{true, false} {
		t.Run(fmt.Sprintf("in one write %v", together), func(t *testing.T) {
			idle := make(chan bool)
			o := serve(t, func(p *peer) {
				for p.next() != nil {
					if together {
						p.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood" + poison)
						continue
					}
					p.answer("good")
					<-idle
					p.say(poison)
				}
			})
			defer close(idle)
			p := pool(t, Settings{}, o.addr)
			for i := range 5 {
				status, body, err := send(p, request("GET", ""))
				if status != 200 || body != "good" || err != nil {
					t.Fatal(i, status, body, err)
				}
				if !together {
					idle <- true
					eventually(t, "the poison to arrive", func() bool {
						e := p.endpoint(o.addr)
						e.idle.mu.Lock()
						defer e.idle.mu.Unlock()
						return e.idle.conns[0].session.(interface{ Stale() bool }).Stale()
					})
				}
			}
			if n := o.accepted.Load(); n != 5 {
				t.Errorf("%d connections for 5 poisoned exchanges", n)
			}
		})
	}
}

func TestA18_AuthenticatedConnectionsAreNotShared(t *testing.T) {
	for name, c := range map[string]struct {
		authorization, answer string
		kept                  int
	}{
		"NTLM offered":          {"", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n", 0},
		"Negotiate in a list":   {"", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"a\", negotiate\r\nContent-Length: 0\r\n\r\n", 0},
		"Negotiate, second one": {"", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=a\r\nWWW-Authenticate: Negotiate abc\r\nContent-Length: 2\r\n\r\nno", 0},
		"one leg of Negotiate":  {"Negotiate abc", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0},
		"NTLM by the client":    {"ntlm abc", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 0},
		"Basic":                 {"Basic abc", "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=a\r\nContent-Length: 0\r\n\r\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			o := serve(t, func(p *peer) {
				for p.next() != nil {
					p.say(c.answer)
				}
			})
			p := pool(t, Settings{}, o.addr)
			x := request("GET", "")
			if c.authorization != "" {
				x.Request.Header.Add("Authorization", c.authorization)
			}
			if _, _, err := send(p, x); err != nil {
				t.Fatal(err)
			}
			if n := p.endpoint(o.addr).idle.len(); n != c.kept {
				t.Errorf("%d connections kept, want %d", n, c.kept)
			}
		})
	}
}

func TestCase_B04_TruncatedBodiesAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		reset  bool
	}{
		"short length":         {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", false},
		"short length, reset":  {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", true},
		"chunked without end":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", false},
		"cut in the last line": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := serve(t, func(p *peer) {
				p.next()
				p.say(c.answer)
				if c.reset {
					_ = p.Conn.(*net.TCPConn).CloseWrite()
				}
			})
			p := pool(t, Settings{}, o.addr)
			x := request("GET", "")
			status, body, err := send(p, x)
			if status != 200 || reasonOf(err) != "upstream_truncated" || body != "half" {
				t.Errorf("%d %q %v: a part must be told from the whole", status, body, err)
			}
			if e := p.endpoint(o.addr); e.idle.len() != 0 || e.inFlight.Load() != 0 {
				t.Errorf("%d idle, %d in flight", e.idle.len(), e.inFlight.Load())
			}
		})
	}
}
