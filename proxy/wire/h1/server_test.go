package h1

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/proxy/message"
)

func TestServerAnswers(t *testing.T) {
	w := serve(t, quick(), echo)
	d := w.dial()
	d.send("GET /a/../b?x=%zz HTTP/1.1\r\nHost: A.example:80\r\nX-A: 1\r\nX_B: 2\r\n\r\n")
	r, body := d.answer("GET")
	if r.StatusCode != 200 || body != "GET a.example /b?x=%zz [X-A: 1]" || r.Header.Get("Server") != "sluice" || r.Header.Get("Date") == "" {
		t.Errorf("%d %q %v", r.StatusCode, body, r.Header)
	}
	d.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n")
	if _, body = d.answer("POST"); body != "POST a / body=abcde" {
		t.Errorf("%q", body)
	}
	d.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc")
	if r, body = d.answer("POST"); body != "POST a / body=abc" || !r.Close {
		t.Errorf("%q %v", body, r.Close)
	}
	d.ended()
}

func TestMalformedBytesAreAnsweredAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		send   string
		status int
	}{
		"TLS hello":        {"\x16\x03\x01", 400},
		"bare LF":          {"GET / HTTP/1.1\n", 400},
		"method":           {"G(", 400},
		"target":           {"GET /\xc3", 400},
		"version":          {"GET / HTTP/1.2\r\n", 400},
		"space in name":    {"GET / HTTP/1.1\r\nHost: a\r\nX ", 400},
		"folding":          {"GET / HTTP/1.1\r\nHost: a\r\n ", 400},
		"control in value": {"GET / HTTP/1.1\r\nHost: a\r\nX: \x00", 400},
		"host":             {"GET / HTTP/1.1\r\nHost: a,b\r\n", 400},
		"length":           {"GET / HTTP/1.1\r\nContent-Length: 1Z\r\n", 400},
		"two lengths":      {"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n", 400},
		"coding":           {"GET / HTTP/1.1\r\nTransfer-Encoding: cow\r\n", 501},
		"expectation":      {"GET / HTTP/1.1\r\nExpect: x\r\n", 417},
		"CONNECT":          {"CONNECT a:1 HTTP/1.1\r\n", 405},
		"long target":      {"GET /" + strings.Repeat("a", 17000), 414},
		"long head":        {"GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 33000), 431},
		"many fields":      {"GET / HTTP/1.1\r\n" + strings.Repeat("X: 1\r\n", 101), 431},
		"chunk size":       {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx", 400},
		"chunk size later": {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nax", 400},
		"trailer":          {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX ", 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, DefaultSettings(), forwardTo(record(t).addr).serve)
			d := w.dial()
			d.send(c.send)
			start := time.Now()
			r, _ := d.answer("GET")
			if took := time.Since(start); r.StatusCode != c.status || !r.Close || took > 2*time.Second {
				t.Errorf("%d, close %v, after %s", r.StatusCode, r.Close, took)
			}
		})
	}
}

func TestRefusalSaysWhatWasParsed(t *testing.T) {
	w := serve(t, quick(), echo)
	d := w.dial()
	d.send("PUT /a?b HTTP/1.1\r\nHost: a\r\nUser-Agent: x\r\nContent-Length: x\r\n\r\n")
	d.answer("PUT")
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.refusals[0]
	if r.Reason != message.AmbiguousFraming || r.Detail == "" || r.Start.IsZero() || r.Request.Method != "PUT" || r.Request.Target != "/a?b" {
		t.Errorf("%+v %+v", r, r.Request)
	}
}

func TestClosingIsGentle(t *testing.T) {
	w := serve(t, quick(), echo)
	d := w.dial()
	// A close with unread bytes would reset the connection, and the answer with it.
	d.send("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n" + strings.Repeat("x", 100<<10))
	if r, _ := d.answer("GET"); r.StatusCode != 400 {
		t.Errorf("%d", r.StatusCode)
	}
	d.ended()
}

func TestUnreadBodyIsDrainedOrTheConnectionEnds(t *testing.T) {
	w := serve(t, quick(), func(s message.Stream) { _, _ = s.Respond(textResponse(200, s.Request().Path)) })
	d := w.dial()
	d.send("POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
	if r, body := d.answer("POST"); r.Close || body != "/1" {
		t.Errorf("%v %q", r.Close, body)
	}
	d.send("POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	if r, body := d.answer("POST"); r.Close || body != "/2" {
		t.Errorf("%v %q", r.Close, body)
	}
	d.send("POST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
	if r, body := d.answer("POST"); !r.Close || body != "/3" {
		t.Errorf("%v %q", r.Close, body)
	}
	d.ended()
	d = w.dial()
	d.send("POST /4 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if r, body := d.answer("POST"); !r.Close || body != "/4" {
		t.Errorf("a client that waits for 100 Continue: close %v %q", r.Close, body)
	}
	d.ended()
	d = w.dial()
	d.send("POST /5 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloZZZ GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
	d.answer("POST")
	d.ended()
	if got := strings.Join(w.requests(), " "); got != "POST /1 POST /2 POST /3 POST /4 POST /5" {
		t.Error(got)
	}
}

func TestHTTP10(t *testing.T) {
	w := serve(t, quick(), func(s message.Stream) {
		r := textResponse(200, "hello")
		if s.Request().Path == "/unknown" {
			r.Length = message.Unknown
		}
		_, _ = s.Respond(r)
	})
	d := w.dial()
	d.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	if r, body := d.answer("GET"); body != "hello" || r.Header.Get("Connection") != "keep-alive" {
		t.Errorf("%q %v", body, r.Header)
	}
	d.send("GET /unknown HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	got := d.rest()
	if !strings.HasSuffix(got, "\r\n\r\nhello") || strings.Contains(got, "Transfer-Encoding") || !strings.Contains(got, "Connection: close") {
		t.Errorf("%q", got)
	}
}

func TestResponseFraming(t *testing.T) {
	var response *message.Response
	w := serve(t, quick(), func(s message.Stream) { _, _ = s.Respond(response) })
	for _, c := range []struct {
		name     string
		method   string
		response message.Response
		want     string
	}{
		{"length", "GET", message.Response{Status: 200, Length: 2, Body: &memory{text: "ok"}}, "200 OK|Content-Length: 2||ok"},
		{"nothing", "GET", message.Response{Status: 200}, "200 OK|Content-Length: 0||"},
		{"unknown length", "GET", message.Response{Status: 200, Length: -1, Body: &memory{text: "ok"}}, "200 OK|Transfer-Encoding: chunked||2|ok|0||"},
		{"unknown and empty", "GET", message.Response{Status: 200, Length: -1, Body: &memory{}}, "200 OK|Transfer-Encoding: chunked||0||"},
		{"204", "GET", message.Response{Status: 204, Length: 5}, "204 No Content||"},
		{"304", "GET", message.Response{Status: 304, Length: 1234}, "304 Not Modified|Content-Length: 1234||"},
		{"304 without length", "GET", message.Response{Status: 304, Length: -1}, "304 Not Modified||"},
		{"HEAD", "HEAD", message.Response{Status: 200, Length: 1234}, "200 OK|Content-Length: 1234||"},
		{"HEAD without length", "HEAD", message.Response{Status: 200, Length: -1}, "200 OK||"},
		{"HEAD with a body", "HEAD", message.Response{Status: 200, Length: 2, Body: &memory{text: "ok"}}, "200 OK|Content-Length: 2||"},
		{"body longer than declared", "GET", message.Response{Status: 200, Length: 2, Body: &memory{text: "okay"}}, "200 OK|Content-Length: 2||ok"},
	} {
		t.Run(c.name, func(t *testing.T) {
			response = &c.response
			d := w.dial()
			d.send(c.method + " / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a,b\r\n\r\n")
			got := d.rest()
			first, _, _ := strings.Cut(got, "HTTP/1.1 400 Bad Request") // what comes next starts in the right place
			head, body, _ := strings.Cut(first, "\r\n\r\n")
			var kept []string
			for line := range strings.SplitSeq(head, "\r\n") {
				if !strings.HasPrefix(line, "Date: ") && line != "Server: sluice" {
					kept = append(kept, line)
				}
			}
			text := strings.Join(kept, "\r\n") + "\r\n\r\n" + body
			if want := "HTTP/1.1 " + strings.ReplaceAll(c.want, "|", "\r\n"); text != want {
				t.Errorf("%q, want %q", text, want)
			}
		})
	}
}

func TestFieldsCannotSplitAResponse(t *testing.T) {
	w := serve(t, quick(), func(s message.Stream) {
		r := textResponse(200, "ok")
		r.Header.Add("X-Good", "1")
		r.Header.Add("X-Bad", "1\r\nX-Evil: 2")
		r.Header.Add("X-Bad\r\nX-Evil", "3")
		r.Header.Add("X-Nul", "a\x00b")
		r.Header.Add("Connection", "X-Good")
		r.Header.Add("Transfer-Encoding", "chunked")
		_, _ = s.Respond(r)
	})
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	r, body := d.answer("GET")
	if body != "ok" || r.Header.Get("X-Good") != "1" || r.Header.Get("X-Evil")+r.Header.Get("X-Bad")+r.Header.Get("X-Nul") != "" || len(r.TransferEncoding) > 0 {
		t.Errorf("%q %v", body, r.Header)
	}
}

func TestTrailersOfResponses(t *testing.T) {
	w := serve(t, quick(), func(s message.Stream) {
		trailer := &message.Header{}
		for _, name := range []string{"X-Sum", "X-Other", "Set-Cookie", "X-Head"} {
			trailer.Add(name, "1")
		}
		r := &message.Response{Status: 200, Length: message.Unknown, Body: &memory{text: "ok", trailer: trailer}, Trailer: "X-Sum, Set-Cookie, X-Head"}
		r.Header.Add("X-Head", "1")
		_, _ = s.Respond(r)
	})
	d := w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n")
	if got := d.rest(); !strings.Contains(got, "\r\nTrailer: X-Sum\r\n") || !strings.HasSuffix(got, "\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n") {
		t.Errorf("%q", got)
	}
	d = w.dial()
	d.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if got := d.rest(); strings.Contains(got, "Trailer") || !strings.HasSuffix(got, "\r\n2\r\nok\r\n0\r\n\r\n") {
		t.Errorf("a client that did not ask: %q", got)
	}
}

func TestA11_StringsOutliveTheirExchange(t *testing.T) {
	var kept []message.Field
	w := serve(t, quick(), func(s message.Stream) {
		kept = append(kept, s.Request().Header.Fields()...)
		_, _ = s.Respond(textResponse(200, "ok"))
	})
	d := w.dial()
	for i := range 5 {
		d.send("GET / HTTP/1.1\r\nHost: a\r\nX-" + strconv.Itoa(i) + ": " + strings.Repeat(strconv.Itoa(i), 20) + "\r\n\r\n")
		d.answer("GET")
	}
	for i, f := range kept {
		if f.Name != "X-"+strconv.Itoa(i) || f.Value != strings.Repeat(strconv.Itoa(i), 20) {
			t.Errorf("%d: %v", i, f)
		}
	}
}

func TestA13_LimitsAreSettings(t *testing.T) {
	set := quick()
	set.HeadBytes, set.TargetBytes, set.Fields, set.KeepAlive = 500, 100, 3, false
	w := serve(t, set, echo)
	for send, status := range map[string]int{
		"GET /" + strings.Repeat("a", 101) + " HTTP/1.1\r\nHost: a\r\n\r\n":                414,
		"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 2\r\nX: 3\r\n\r\n":                        431,
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 500):                      431,
		"GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 500) + "\r\n\r\n":         431,
		"GET /" + strings.Repeat("a", 99) + " HTTP/1.1\r\nHost: a\r\nX: 1\r\nX: 2\r\n\r\n": 200,
	} {
		d := w.dial()
		d.send(send)
		if r, _ := d.answer("GET"); r.StatusCode != status || !r.Close {
			t.Errorf("%.40q: %d, close %v", send, r.StatusCode, r.Close)
		}
	}
}
