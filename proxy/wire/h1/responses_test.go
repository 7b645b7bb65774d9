package h1

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/message"
)

func TestResponses(t *testing.T)                { runResponses(t, "plain") }
func TestA14_ResponseHeads(t *testing.T)        { runResponses(t, "A14") }
func TestA15_BytesBehindAResponse(t *testing.T) { runResponses(t, "A15") }
func TestA18_BoundConnections(t *testing.T)     { runResponses(t, "A18") }
func TestCase_B03_NoBody(t *testing.T)          { runResponses(t, "B03") }
func TestCase_B04_BodyBreaksOff(t *testing.T)   { runResponses(t, "B04") }
func TestCase_B08_ChunkedTwice(t *testing.T)    { runResponses(t, "B08") }

func runResponses(t *testing.T, id string) {
	for _, c := range readLines(t, "testdata/responses.txt") {
		if !strings.HasPrefix(c.section, id+" ") {
			continue
		}
		for _, mode := range []string{"", "-by-bytes"} {
			if mode != "" && len(c.in) > 2000 {
				continue
			}
			t.Run(strconv.Itoa(c.line)+mode, func(t *testing.T) {
				t.Parallel()
				got := receive(t, c.in, mode != "")
				if mode != "" && c.out == "upstream_malformed" && strings.HasSuffix(got, "04 - spent") {
					return // the body of a 204 or 304 was not there yet; nobody will take it for anything
				}
				if got != c.out {
					t.Errorf("%q: %s, want %s", c.in, got, c.out)
				}
			})
		}
	}
}

// receive has a Client make sense of what an origin sends, and describes it as the file does.
func receive(t *testing.T, text string, slowly bool) string {
	request := get("/")
	for _, method := range []string{"HEAD", "UPGRADE"} {
		rest, ok := strings.CutPrefix(text, method+" ")
		switch {
		case !ok:
		case method == "UPGRADE":
			text, request.Upgrade = rest, "websocket"
		default:
			text, request.Method = rest, method
		}
	}
	text = decode(t, strings.ReplaceAll(text, "{O}", "HTTP/1.1 200 OK¶"))
	addr := origin(t, func(_ int, d *dialed) {
		if _, err := http.ReadRequest(d.r); err == nil {
			_, _ = io.WriteString(d, text)
		}
	})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if slowly {
		nc = &trickle{nc.(*net.TCPConn)}
	}
	c := NewClient(nc, nil)
	defer c.Close()
	if err := c.Send(request, "a"); err != nil {
		t.Fatal(err)
	}
	var r message.Response
	if err := c.Receive(&r, nil, 5*time.Second); err != nil {
		var failed *Error
		if !errors.As(err, &failed) || c.Reusable() {
			t.Errorf("%v, reusable %v", err, c.Reusable())
			return ""
		}
		return failed.Reason.String()
	}
	body := "-"
	if r.Body != nil {
		var b []byte
		b, err = io.ReadAll(r.Body)
		body = strconv.Quote(string(b))
		r.Body.Close()
	}
	return strconv.Itoa(r.Status) + " " + body + " " + fate(t, c, err)
}

func fate(t *testing.T, c *Client, err error) string {
	var broken *message.BodyError
	switch {
	case errors.As(err, &broken) && !c.Reusable():
		return broken.Reason.String()
	case err != nil:
		t.Errorf("%v, reusable %v", err, c.Reusable())
	case c.Reusable():
		if waiting, _ := c.link.socket.peek(c.link.under()); waiting {
			return "spent" // what is behind the response is found before the next request
		}
		return "reusable"
	}
	return "spent"
}

func TestResponseHeadersCrossWithoutHopByHop(t *testing.T) {
	addr := origin(t, func(_ int, d *dialed) {
		if _, err := http.ReadRequest(d.r); err == nil {
			d.send("HTTP/1.1 200 OK\r\nConnection: Upgrade, Keep-Alive, X-Hop\r\nUpgrade: h2,h2c\r\nKeep-Alive: timeout=5\r\n" +
				"Proxy-Connection: x\r\nX-Hop: 1\r\nTE: trailers\r\nX-Stay: 1\r\nServer: origin\r\nContent-Length: 0\r\n\r\n")
		}
	})
	w := serve(t, quick(), forwardTo(addr).serve)
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	r, _ := d.answer("GET")
	for _, name := range []string{"Connection", "Upgrade", "Keep-Alive", "Proxy-Connection", "X-Hop", "TE"} {
		if v := r.Header.Values(name); len(v) > 0 {
			t.Errorf("%s: %v", name, v)
		}
	}
	if r.Header.Get("X-Stay") != "1" || r.Header.Get("Server") != "origin" || len(r.Header.Values("Date")) != 1 {
		t.Errorf("%v", r.Header)
	}
}
