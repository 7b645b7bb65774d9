package h2

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/wire/h1"
)

// parse makes the message.Request by the rules of wire/h1, or says why the request is refused.
func (x *stream) parse() (message.Reason, string) {
	limits := x.server.settings.Limits
	q := &x.request
	*q = message.Request{Method: x.r.Method, Scheme: "https", Authority: x.r.Host, Target: x.r.RequestURI, Version: message.HTTP2}
	switch {
	case !isToken(q.Method) || len(q.Method) > maxMethod:
		return message.MalformedRequest, ":method is not a token"
	case q.Method == http.MethodConnect || q.Method == http.MethodTrace:
		return message.MethodRefused, q.Method + " is not offered"
	case len(q.Target) > limits.TargetBytes:
		return message.TargetTooLong, "the request target is too long"
	}
	var ok bool
	if q.Host, ok = canon.Host(q.Authority); !ok {
		return message.BadHost, ":authority is not host and port"
	}
	for _, host := range x.r.Header["Host"] { // RFC 9113 §8.3.1
		if host != q.Authority {
			return message.BadHost, "host and :authority differ"
		}
	}
	if reason, detail := x.target(); reason != message.OK {
		return reason, detail
	}
	if reason, detail := x.fields(limits.Fields); reason != message.OK {
		return reason, detail
	}
	return x.body()
}

const maxMethod = 64

// isToken reports whether s is a token (RFC 9110 §5.6.2). HTTP/2 itself lets a method hold anything, which would end as another request
// line than the one that was judged.
func isToken(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0:
			return false
		}
	}
	return s != ""
}

func (x *stream) target() (message.Reason, string) {
	q := &x.request
	for i := range len(q.Target) {
		if c := q.Target[i]; c <= ' ' || c >= 0x7f || c == '#' {
			return message.BadTarget, ":path holds a character that it must not hold"
		}
	}
	if q.Target == "*" && q.Method == http.MethodOptions {
		q.Path = "*"
		return message.OK, ""
	}
	path, query, has := strings.Cut(q.Target, "?")
	var ok bool
	if q.Path, ok = canon.Path(path); !ok {
		return message.BadTarget, ":path has a broken or forbidden escape"
	}
	q.RawQuery, q.HasQuery = query, has
	return message.OK, ""
}

const fieldSigns = len(": \r\n") // of a field, where heads are text

// fields takes over the fields. net/http has refused the connection-specific ones (RFC 9113 §8.2.2) and lost the order of names, so
// they come sorted.
func (x *stream) fields(most int) (message.Reason, string) {
	q := &x.request
	names := make([]string, 0, len(x.r.Header))
	count, size := 0, len(q.Method)+len(q.Target)+len(q.Authority)
	for name, values := range x.r.Header {
		names = append(names, name)
		if name == "Cookie" { // its crumbs will be one
			count++
		} else {
			count += len(values)
		}
		for _, value := range values {
			size += len(name) + len(value) + fieldSigns
		}
	}
	switch {
	case count > most:
		return message.HeadTooLarge, "too many fields"
	case size > x.server.settings.Limits.HeadBytes:
		return message.HeadTooLarge, "the head is too large"
	}
	slices.Sort(names)
	q.Header = message.HeaderOver(make([]message.Field, 0, count))
	for _, name := range names {
		values := x.r.Header[name]
		switch id := message.Lookup(name); {
		case id == message.Expect:
			if len(values) != 1 || !message.EqualFold(values[0], "100-continue") {
				return message.ExpectationFailed, "Expect is not 100-continue"
			}
			q.Expect = x.r.ContentLength != 0
		case id == message.TE:
			q.Trailers = slices.Contains(values, "trailers")
		case id != message.Other && id <= message.HTTP2Settings:
		case strings.Contains(name, "_"):
		case id == message.Cookie: // RFC 9113 §8.2.3: crumbs are joined
			q.Header.AddField(message.Field{Name: name, Value: strings.Join(values, "; "), ID: id})
		default:
			for _, value := range values {
				q.Header.AddField(message.Field{Name: name, Value: strings.Trim(value, " \t"), ID: id})
			}
		}
	}
	q.Trailer = announced(x.r.Trailer)
	return message.OK, ""
}

// announced lists the trailer fields that are passed on if they come.
func announced(trailer http.Header) string {
	names := make([]string, 0, len(trailer))
	for name := range trailer {
		if h1.MayTrail(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// body says what content the request has. A declared length that is no number would count as none in net/http.
func (x *stream) body() (message.Reason, string) {
	q := &x.request
	if lengths := x.r.Header["Content-Length"]; len(lengths) > 0 && (len(lengths) > 1 || !isNumber(lengths[0])) {
		return message.AmbiguousFraming, "content-length is not one number"
	}
	q.Length = x.r.ContentLength
	if x.r.Body == nil || x.r.Body == http.NoBody || q.Length == 0 {
		q.Length = 0
		return message.OK, ""
	}
	b := &requestBody{x: x}
	q.Body = b
	if q.Length == message.Unknown && !q.Expect && (q.Method == http.MethodGet || q.Method == http.MethodHead) {
		b.peek()
	}
	return message.OK, ""
}

func isNumber(s string) bool {
	return s != "" && len(s) <= 18 && strings.Trim(s, "0123456789") == ""
}

// requestBody pulls from the stream; net/http gives the client credit as it is read.
type requestBody struct {
	x       *stream
	trailer *message.Header
	passed  atomic.Int64
	head    []byte // read ahead, with headErr behind it
	headErr error
}

// peek waits for the first byte of the body of a method that seldom has one: when an empty frame is all that comes, there is no
// body, and an origin that takes none for the method is not bothered with one.
func (b *requestBody) peek() {
	var first [1]byte
	n, err := b.read(first[:])
	b.head, b.headErr = first[:n], err
	if n == 0 && err == io.EOF && b.trailer == nil { //nolint:errorlint // io.Reader's contract
		b.x.request.Length, b.x.request.Body = 0, nil
	}
}

func (b *requestBody) Read(p []byte) (int, error) {
	if len(b.head) > 0 {
		n := copy(p, b.head)
		b.head = b.head[n:]
		b.passed.Add(int64(n))
		return n, nil
	}
	if b.headErr != nil {
		return 0, b.headErr
	}
	n, err := b.read(p)
	b.passed.Add(int64(n))
	return n, err
}

// Passed is message.Counted.
func (b *requestBody) Passed() int64 { return b.passed.Load() }

var errOver = &message.BodyError{Reason: message.ClientGone, Err: errors.New("the exchange is over")}

// read reads from the stream. The deadline holds for this read only: what the origin does not take yet must not cut the client off.
func (b *requestBody) read(p []byte) (int, error) {
	if !b.x.deadline(b.x.control.SetReadDeadline, b.x.server.settings.Limits.BodyTimeout) {
		return 0, errOver
	}
	n, err := b.x.r.Body.Read(p)
	b.x.deadline(b.x.control.SetReadDeadline, 0)
	b.x.request.Expect = false
	switch {
	case err == nil:
	case err == io.EOF:
		b.takeTrailer()
	case b.x.r.Context().Err() != nil:
		err = &message.BodyError{Reason: message.ClientGone, Err: err}
	default:
		err = &message.BodyError{Reason: bodyReason(err), Err: err}
	}
	return n, err
}

func bodyReason(err error) message.Reason {
	if timedOut(err) {
		return message.BodyTimeout
	}
	return message.MalformedRequest
}

func (b *requestBody) takeTrailer() {
	if len(b.x.r.Trailer) == 0 || b.trailer != nil {
		return
	}
	b.trailer = &message.Header{}
	for name, values := range b.x.r.Trailer {
		if !h1.MayTrail(name) {
			continue
		}
		for _, value := range values {
			b.trailer.Add(name, value)
		}
	}
}

func (b *requestBody) Trailer() *message.Header { return b.trailer }

func (b *requestBody) Close() error { return b.x.r.Body.Close() }
