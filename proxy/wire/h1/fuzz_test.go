package h1

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"

	"sluice.dev/sluice/proxy/message"
)

// seeds are the heads of the case table.
func seedRequests(f *testing.F) {
	t := new(testing.T)
	for _, c := range readCases(t) {
		if len(c.bytes) < 4000 {
			f.Add(c.bytes)
		}
	}
	for _, o := range obfuscations() {
		f.Add("POST / HTTP/1.1\r\nHost: a\r\n" + o.lines + "\r\n\r\n")
	}
}

// FuzzRequestHead parses a head and has net/http do the same. What both accept must mean the same, what we accept it must accept too, and looking at a
// head early must not refuse what is accepted when it is complete.
func FuzzRequestHead(f *testing.F) {
	seedRequests(f)
	f.Fuzz(func(t *testing.T, text string) {
		end := headEnd([]byte(text), 0)
		if end == 0 {
			return
		}
		head := text[:end]
		var r message.Request
		var p requestHead
		p.reset(&r, DefaultSettings(), "http")
		if p.parse(head).bad() || r.Trailer != "" { // net/http also looks at the names in Trailer
			return
		}
		checkEarly(t, head)
		checkForwarded(t, &r)
		q, err := http.ReadRequest(bufio.NewReader(strings.NewReader(head)))
		if err != nil {
			t.Fatalf("%q: net/http refuses it: %v", head, err)
		}
		if q.Method != r.Method || q.ProtoMinor == 1 != (r.Version == message.HTTP11) {
			t.Errorf("%q: %s %s, net/http has %s %s", head, r.Method, r.Version, q.Method, q.Proto)
		}
		if q.Host != r.Authority || q.URL.RawQuery != r.RawQuery || q.ContentLength != r.Length {
			t.Errorf("%q: %q %q %d, net/http has %q %q %d", head, r.Authority, r.RawQuery, r.Length, q.Host, q.URL.RawQuery, q.ContentLength)
		}
		for name, value := range r.Header.All() {
			if !contains(q.Header.Values(name), value) {
				t.Errorf("%q: %s: %q, net/http has %q", head, name, value, q.Header.Values(name))
			}
		}
	})
}

func contains(values []string, value string) bool {
	for _, v := range values {
		if v == value {
			return true
		}
	}
	return false
}

// checkEarly looks at every start of a good head.
func checkEarly(t *testing.T, head string) {
	var r message.Request
	var p requestHead
	p.reset(&r, DefaultSettings(), "http")
	var l lexer
	whole := func(number int, line string) fault {
		if number == 0 {
			return p.start(line)
		}
		return p.field(line)
	}
	for end := range len(head) - len("\r\n") {
		if f := l.advance([]byte(head[:end]), whole); f.bad() {
			t.Fatalf("%q: refused at byte %d: %s", head, end, f.detail)
		}
	}
}

// checkForwarded reads what would be sent on: it must be one request with nothing in it that belongs to a connection.
func checkForwarded(t *testing.T, r *message.Request) {
	out := string(appendRequest(nil, r, r.Authority, ""))
	if !validTarget(r) {
		t.Fatalf("the target %q %q cannot be sent on", r.Path, r.RawQuery)
	}
	host := r.Authority
	if host == "" {
		host = "a"
		out = strings.Replace(out, "\r\nHost: \r\n", "\r\nHost: a\r\n", 1)
	}
	var again message.Request
	var p requestHead
	set := DefaultSettings()
	set.Fields += 10
	p.reset(&again, set, "http")
	if f := p.parse(out); f.bad() && r.Length >= 0 {
		t.Fatalf("%q is not a request again: %s", out, f.detail)
	}
	if again.Path != r.Path || again.RawQuery != r.RawQuery || again.Authority != host || again.Header.Len() != r.Header.Len() {
		t.Errorf("%q: %+v, was %+v", out, again, r)
	}
}

// loaded is a link of which everything is buffered.
func loaded(text []byte) *link {
	nc, other := net.Pipe()
	other.Close()
	return &link{nc: nc, buf: append(make([]byte, 0, len(text)+1), text...), w: len(text)}
}

type nothingMore struct{ l *link }

func (nothingMore) fill() error                { return io.EOF }
func (nothingMore) read(p []byte) (int, error) { return 0, io.EOF }

// FuzzChunks reads a chunked body and has net/http's reader do the same: what we accept it must understand the same way.
func FuzzChunks(f *testing.F) {
	for _, seed := range []string{"0\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n", "3;a=b\r\nabc\r\n0;c\r\nX: 1\r\n\r\n", "a\r\n0123456789\r\n0\r\n\r\n", "3\r\nabc0\r\n", "-1\r\n", " 3\r\nabc\r\n0\r\n\r\n", "3 ;x\r\nabc\r\n0\r\n\r\n", "ffffffffffffffff\r\n", "3\nabc\n0\n\n", "0\r\n0\r\n\r\n"} {
		f.Add([]byte(seed), 7)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		l := loaded(text)
		b := content{link: l, from: nothingMore{l}, kind: byChunks, fields: 100, announced: "X"}
		got, err := readBy(&b, size)
		if err != nil {
			if n, end := b.ready(); n != 0 || !end {
				t.Errorf("%q: ready %d %v after %v", text, n, end, err)
			}
			return
		}
		rest := text[l.r:]
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(text)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: %q, net/http has %q %v", text, got, want, err)
		}
		if b.trailer.Len() == 0 && !bytes.HasSuffix(text[:len(text)-len(rest)], endOfHead) {
			t.Errorf("%q: ends at %q", text, rest)
		}
	})
}

// readBy reads all in pieces of at most that size, and holds ready to its word.
func readBy(b *content, size int) (all []byte, err error) {
	p := make([]byte, max(1, size%64))
	for err == nil {
		var n int
		n, err = b.Read(p)
		all = append(all, p[:n]...)
	}
	if err == io.EOF { //nolint:errorlint // the bare io.EOF
		return all, nil
	}
	return all, err
}

// FuzzResponseHead parses the head of a response and has net/http do the same.
func FuzzResponseHead(f *testing.F) {
	t := new(testing.T)
	for _, c := range readLines(t, "testdata/responses.txt") {
		text := strings.TrimPrefix(strings.TrimPrefix(c.in, "HEAD "), "UPGRADE ")
		f.Add(decode(t, strings.ReplaceAll(text, "{O}", "HTTP/1.1 200 OK¶")))
	}
	f.Fuzz(func(t *testing.T, text string) {
		end := headEnd([]byte(text), 0)
		if end == 0 {
			return
		}
		head := text[:end]
		var r message.Response
		var p responseHead
		p.reset(&r, 1000)
		if p.parse(head).bad() {
			return
		}
		q, err := http.ReadResponse(bufio.NewReader(strings.NewReader(head)), &http.Request{Method: "GET"})
		if err != nil {
			t.Fatalf("%q: net/http refuses it: %v", head, err)
		}
		if q.StatusCode != r.Status || q.ProtoMinor == 1 != (r.Version == message.HTTP11) {
			t.Errorf("%q: %d %s, net/http has %d %s", head, r.Status, r.Version, q.StatusCode, q.Proto)
		}
		bodyless := r.Status < 200 || r.Status == 204 || r.Status == 304
		if !bodyless && (p.codings > 0) != (len(q.TransferEncoding) > 0) || !bodyless && p.codings == 0 && q.ContentLength != r.Length {
			t.Errorf("%q: %d %d, net/http has %v %d", head, p.codings, r.Length, q.TransferEncoding, q.ContentLength)
		}
		for name, value := range r.Header.All() {
			if !contains(q.Header.Values(name), value) {
				t.Errorf("%q: %s: %q, net/http has %q", head, name, value, q.Header.Values(name))
			}
		}
	})
}
