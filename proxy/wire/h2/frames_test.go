package h2

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"sluice.dev/sluice/proxy/message"
)

// echo says in a response field what it saw.
func echo(x message.Stream) {
	q := x.Request()
	body := "none"
	if q.Body != nil {
		content, err := io.ReadAll(q.Body)
		body = fmt.Sprintf("%q %v", content, err)
	}
	text(x, 200, "", "X-Saw", fmt.Sprintf("%s length=%d trailer=%q body=%s", q.Method, q.Length, q.Trailer, body))
}

// answer reads until the stream's response head and returns its status and a field.
func (r *rawFrames) answer(stream uint32, field string) string {
	for {
		frame, err := r.framer.ReadFrame()
		if err != nil {
			return err.Error()
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			if f.StreamID == stream {
				for _, h := range f.RegularFields() {
					if h.Name == field {
						return h.Value
					}
				}
				return f.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == stream {
				return "reset"
			}
		}
	}
}

func pseudo(method, path string, fields ...string) []string {
	return append([]string{":method", method, ":scheme", "https", ":path", path, ":authority", "a.test"}, fields...)
}

// TestCase_B05_ABodyOnlyWhereThereIsOne (RFC 9112 §6.3): a GET that ends with an empty frame has none.
func TestCase_B05_ABodyOnlyWhereThereIsOne(t *testing.T) {
	w := serve(t, echo)
	for _, c := range []struct {
		name, method string
		end          bool
		fields, data []string
		want         string
	}{
		{"GET, END_STREAM on the head", "GET", true, nil, nil, `GET length=0 trailer="" body=none`},
		{"GET, an empty frame", "GET", false, nil, []string{""}, `GET length=0 trailer="" body=none`},
		{"GET with a body", "GET", false, nil, []string{"abc", "def"}, `GET length=-1 trailer="" body="abcdef" <nil>`},
		{"POST, END_STREAM on the head", "POST", true, nil, nil, `POST length=0 trailer="" body=none`},
		{"POST of length 0", "POST", true, []string{"content-length", "0"}, nil, `POST length=0 trailer="" body=none`},
		{"DELETE of unknown length", "DELETE", false, nil, []string{"x", ""}, `DELETE length=-1 trailer="" body="x" <nil>`},
		{"POST of known length", "POST", false, []string{"content-length", "3"}, []string{"abc"}, `POST length=3 trailer="" body="abc" <nil>`},
		{"announced trailers", "POST", false, []string{"trailer", "x-sum, x-forwarded-for, x_a"}, []string{"abc"}, `POST length=-1 trailer="X-Sum" body="abc" <nil>`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.raw()
			r.headers(1, c.end, pseudo(c.method, "/", c.fields...)...)
			for i, data := range c.data {
				if err := r.framer.WriteData(1, i == len(c.data)-1, []byte(data)); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.answer(1, "x-saw"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestB8_WhatHTTP1WouldReadOtherwise never reaches the handler: a method with a space would be another request line.
func TestB8_WhatHTTP1WouldReadOtherwise(t *testing.T) {
	w := serve(t, echo)
	for _, c := range []struct {
		name, want string
		fields     []string
	}{
		{"a method with a space", "400", pseudo("GET /admin HTTP/1.1", "/")},
		{"a method with a colon", "400", pseudo("GET:", "/")},
		{"a long method", "400", pseudo(strings.Repeat("A", 65), "/")},
		{"an empty method", "reset", pseudo("", "/")},
		{"another host", "400", pseudo("GET", "/", "host", "b.test")},
		{"the same host", "GET length=0", pseudo("GET", "/", "host", "a.test")},
		{"a target without a slash", "reset", pseudo("GET", "admin")},
		{"a target with a space", "400", pseudo("GET", "/a b")},
		{"a target with a line end", "reset", pseudo("GET", "/a\r\nx: y")},
		{"a value with a line end", "reset", pseudo("GET", "/", "x", "a\r\nb")},
		{"a name in upper case", "reset", pseudo("GET", "/", "X-A", "b")},
		{"connection", "400", pseudo("GET", "/", "connection", "x")},
		{"transfer-encoding", "400", pseudo("GET", "/", "transfer-encoding", "chunked")},
		{"te", "400", pseudo("GET", "/", "te", "gzip")},
		{"a length that is none", "400", pseudo("GET", "/", "content-length", "abc")},
		{"a length with a sign", "400", pseudo("GET", "/", "content-length", "+0")},
		{"two lengths", "reset", pseudo("GET", "/", "content-length", "0", "content-length", "1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.raw()
			r.headers(1, true, c.fields...)
			if got := r.answer(1, "x-saw"); !strings.HasPrefix(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestB9_DataThatIsNotTheLength is a broken body, not a shorter or longer one.
func TestB9_DataThatIsNotTheLength(t *testing.T) {
	bodies := make(chan error, 1)
	w := serve(t, func(x message.Stream) {
		_, err := io.ReadAll(x.Request().Body)
		bodies <- err
		text(x, 200, "ok")
	})
	for _, data := range []string{"abcd", "ab"} {
		r := w.raw()
		r.headers(1, false, pseudo("POST", "/", "content-length", "3")...)
		if err := r.framer.WriteData(1, true, []byte(data)); err != nil {
			t.Fatal(err)
		}
		if err := <-bodies; err == nil {
			t.Errorf("%q was taken for a whole body of 3 bytes", data)
		}
	}
}

// TestCase_B02_NoFieldOfTheConnection stands in a response, whoever put it there (RFC 9113 §8.2.2).
func TestCase_B02_NoFieldOfTheConnection(t *testing.T) {
	w := serve(t, func(x message.Stream) {
		text(x, 200, "ok", "Connection", "Upgrade, X-Hop", "Upgrade", "h2c", "Keep-Alive", "timeout=5", "Proxy-Connection", "x", "Transfer-Encoding", "chunked",
			"TE", "trailers", "X-Kept", "1")
	})
	response, err := w.client.Get("https://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for _, name := range []string{"Connection", "Upgrade", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Te"} {
		if got, has := response.Header[name]; has {
			t.Errorf("%s: %v", name, got)
		}
	}
	if body, err := io.ReadAll(response.Body); string(body) != "ok" || err != nil || response.Header.Get("X-Kept") != "1" {
		t.Errorf("%q %v %v", body, err, response.Header)
	}
}

// TestOptionsOfTheServer reaches the handler, as over HTTP/1.
func TestOptionsOfTheServer(t *testing.T) {
	w := serve(t, func(x message.Stream) { text(x, 200, "", "X-Saw", x.Request().Path) })
	r := w.raw()
	r.headers(1, true, pseudo(http.MethodOptions, "*")...)
	if got := r.answer(1, "x-saw"); got != "*" {
		t.Errorf("got %s", got)
	}
}
