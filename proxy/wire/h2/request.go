package h2

import (
	"io"
	"net/http"
	"slices"
	"strings"

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
	case q.Method == http.MethodConnect || q.Method == http.MethodTrace:
		return message.MethodRefused, q.Method + " is not offered"
	case len(q.Target) > limits.TargetBytes:
		return message.TargetTooLong, "the request target is too long"
	}
	var ok bool
	if q.Host, ok = canon.Host(q.Authority); !ok {
		return message.BadHost, ":authority is not host and port"
	}
	if reason, detail := x.target(); reason != message.OK {
		return reason, detail
	}
	if reason, detail := x.fields(limits.Fields); reason != message.OK {
		return reason, detail
	}
	x.body()
	return message.OK, ""
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

// fields takes over the fields. net/http has refused the connection-specific ones (RFC 9113 §8.2.2) and lost the order of names, so
// they come sorted.
func (x *stream) fields(most int) (message.Reason, string) {
	q := &x.request
	names := make([]string, 0, len(x.r.Header))
	count := 0
	for name, values := range x.r.Header {
		names = append(names, name)
		count += len(values)
	}
	if count > most {
		return message.HeadTooLarge, "too many fields"
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
				q.Header.AddField(message.Field{Name: name, Value: value, ID: id})
			}
		}
	}
	announced := make([]string, 0, len(x.r.Trailer))
	for name := range x.r.Trailer {
		announced = append(announced, name)
	}
	slices.Sort(announced)
	q.Trailer = strings.Join(announced, ", ")
	return message.OK, ""
}

func (x *stream) body() {
	q := &x.request
	q.Length = x.r.ContentLength
	if x.r.Body == nil || x.r.Body == http.NoBody {
		q.Length = 0
		return
	}
	if q.Length != 0 {
		q.Body = &requestBody{x: x}
	}
}

// requestBody pulls from the stream; net/http gives the client credit as it is read.
type requestBody struct {
	x       *stream
	trailer *message.Header
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.x.limitRead()
	n, err := b.x.r.Body.Read(p)
	b.x.request.Expect = false
	switch {
	case err == nil:
	case err == io.EOF: //nolint:errorlint // io.Reader's contract
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
		if !h1.MayTrail(name) || strings.Contains(name, "_") {
			continue
		}
		for _, value := range values {
			b.trailer.Add(name, value)
		}
	}
}

func (b *requestBody) Trailer() *message.Header { return b.trailer }

func (b *requestBody) Close() error { return b.x.r.Body.Close() }
