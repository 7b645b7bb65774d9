package h1

import (
	"net/http"
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/proxy/message"
)

const (
	maxMethod  = 64
	maxLength  = 18 // digits of a Content-Length that cannot overflow
	maxOptions = 64 // connection options that name fields
)

// requestHead parses the head of a request into a message.Request, line by line.
type requestHead struct {
	r   *message.Request
	set *Settings

	fields, hosts, lengths, codings, expects int

	host      string // as sent
	canonical string // of host
	length    int64
	options   []string // of Connection, those that name fields
	close     bool
	keepAlive bool
	upgrade   bool // option
	websocket bool // offered
}

// reset readies p for a head of a connection with the given scheme.
func (p *requestHead) reset(r *message.Request, set *Settings, scheme string) {
	clear(p.options)
	*p = requestHead{r: r, set: set, options: p.options[:0]}
	header := r.Header
	header.Reset()
	*r = message.Request{Scheme: scheme, Version: message.HTTP11, Header: header}
}

// Parse parses a whole request head as a Server with these settings does, without a connection. The Refusal is nil for one that is served.
func Parse(head, scheme string, set *Settings) (*message.Request, *Refusal) {
	r, p := new(message.Request), new(requestHead)
	p.reset(r, set, scheme)
	f := p.parse(head)
	if !f.bad() && len(head) > set.HeadBytes {
		f = fault{message.HeadTooLarge, "the request head is too large"}
	}
	if f.bad() {
		return r, &Refusal{Reason: f.reason, Request: r, Detail: f.detail}
	}
	return r, nil
}

// parse parses a complete head.
func (p *requestHead) parse(head string) fault {
	line, rest, ok := nextLine(head)
	if !ok {
		return malformed(bareLF)
	}
	if f := p.start(line); f.bad() {
		return f
	}
	for {
		if line, rest, ok = nextLine(rest); !ok {
			return malformed(bareLF)
		}
		if line == "" {
			break
		}
		if f := p.field(line); f.bad() {
			return f
		}
	}
	return p.finish()
}

// start parses the request line (RFC 9112 §3).
func (p *requestHead) start(line string) fault {
	method, rest, ok := strings.Cut(line, " ")
	if !isToken(method) || len(method) > maxMethod {
		return malformed("the method is not a token")
	}
	p.r.Method = method
	target, version, two := strings.Cut(rest, " ")
	p.r.Target = target
	if len(target) > p.set.TargetBytes {
		return fault{message.TargetTooLong, "the request target is too long"}
	}
	if !isTarget(target) {
		return fault{message.BadTarget, "the request target is empty or holds a character that it must not hold"}
	}
	switch {
	case !ok || !two:
		return malformed("the request line has no version")
	case version == "HTTP/1.1":
	case version == "HTTP/1.0":
		p.r.Version = message.HTTP10
	case strings.HasPrefix(version, "HTTP/") && isTarget(version):
		return fault{message.BadVersion, "the version is neither HTTP/1.1 nor HTTP/1.0"}
	default:
		return malformed("the request line is not method, target and version with single spaces")
	}
	return p.target(target)
}

// target takes the request target apart (RFC 9112 §3.2).
func (p *requestHead) target(target string) fault {
	switch {
	case p.r.Method == http.MethodConnect:
		if _, ok := canon.Host(target); !ok {
			return fault{message.BadTarget, "the target of CONNECT is not host and port"}
		}
		return fault{message.MethodRefused, "CONNECT is not offered"}
	case p.r.Method == http.MethodTrace:
		return fault{message.MethodRefused, "TRACE is not offered"}
	case target[0] == '/':
		return p.path(target)
	case target == "*":
		if p.r.Method != http.MethodOptions {
			return fault{message.BadTarget, "the target * is for OPTIONS only"}
		}
		p.r.Path = "*"
		return fault{}
	}
	return p.absolute(target)
}

func (p *requestHead) path(target string) fault {
	path, query, has := strings.Cut(target, "?")
	var ok bool
	if p.r.Path, ok = canon.Path(path); !ok {
		return fault{message.BadTarget, "the path has a broken or forbidden escape"}
	}
	p.r.RawQuery, p.r.HasQuery = query, has
	return fault{}
}

// absolute takes a target in absolute form apart; its authority wins over the Host field (RFC 9112 §3.2.2).
func (p *requestHead) absolute(target string) fault {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || !message.EqualFold(scheme, "http") && !message.EqualFold(scheme, "https") {
		return fault{message.BadTarget, "the target is neither a path nor an http URI"}
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if p.r.Host, ok = canon.Host(rest[:end]); !ok {
		return fault{message.BadHost, "the authority of the target is not host and port"}
	}
	p.r.Authority = rest[:end]
	rest = rest[end:]
	switch {
	case rest == "" && p.r.Method == http.MethodOptions:
		p.r.Path = "*"
		return fault{}
	case rest == "":
		p.r.Path = "/"
		return fault{}
	case rest[0] == '?':
		p.r.Path, p.r.RawQuery, p.r.HasQuery = "/", rest[1:], true
		return fault{}
	}
	return p.path(rest)
}

// field parses one field line.
func (p *requestHead) field(line string) fault {
	if p.fields++; p.fields > p.set.Fields {
		return fault{message.HeadTooLarge, "too many fields"}
	}
	name, value, f := splitField(line)
	if f.bad() {
		return f
	}
	id := message.Lookup(name)
	if id == message.Other || id > message.HTTP2Settings {
		if strings.IndexByte(name, '_') < 0 {
			p.r.Header.AddField(message.Field{Name: name, Value: value, ID: id})
		}
		return fault{}
	}
	return p.typed(id, value)
}

// typed takes in a field that never stands in the header.
func (p *requestHead) typed(id message.ID, value string) fault {
	switch id {
	case message.Host:
		p.host = value
		if p.hosts++; p.hosts > 1 {
			return fault{message.BadHost, "two Host fields"}
		}
		var ok bool
		if p.canonical, ok = canon.Host(value); !ok {
			return fault{message.BadHost, "Host is not host and port"}
		}
	case message.ContentLength:
		if p.lengths++; p.lengths > 1 {
			return fault{message.AmbiguousFraming, "two Content-Length fields"}
		}
		var ok bool
		if p.length, ok = parseLength(value); !ok {
			return fault{message.AmbiguousFraming, "Content-Length is not a plain number"}
		}
	case message.TransferEncoding:
		if p.codings++; p.codings > 1 {
			return fault{message.AmbiguousFraming, "two Transfer-Encoding fields"}
		}
		if f := checkCoding(value); f.bad() {
			return f
		}
	case message.Expect:
		p.expects++
		if p.r.Version != message.HTTP10 && (p.expects > 1 || !message.EqualFold(value, "100-continue")) {
			return fault{message.ExpectationFailed, "Expect is not 100-continue"}
		}
	case message.Connection:
		return p.connection(value)
	case message.TE:
		p.r.Trailers = p.r.Trailers || hasElement(value, "trailers")
	case message.Upgrade:
		p.websocket = p.websocket || hasElement(value, "websocket")
	case message.Trailer:
		p.r.Trailer = join(p.r.Trailer, value)
	}
	if p.lengths > 0 && p.codings > 0 {
		return fault{message.AmbiguousFraming, "both Content-Length and Transfer-Encoding"}
	}
	return fault{}
}

// connection reads a Connection field (RFC 9110 §7.6.1).
func (p *requestHead) connection(value string) fault {
	for more := true; more; {
		var option string
		option, value, more = nextElement(value)
		switch {
		case message.EqualFold(option, "keep-alive"):
			p.keepAlive = true
		case message.EqualFold(option, "close"):
			p.close = true
		case message.EqualFold(option, "upgrade"):
			p.upgrade = true
		case option != "" && len(p.options) == maxOptions:
			return malformed("too many connection options")
		case option != "":
			p.options = append(p.options, option)
		}
	}
	return fault{}
}

// finish draws the conclusions once every field is there.
func (p *requestHead) finish() fault {
	r := p.r
	old := r.Version == message.HTTP10
	switch {
	case p.hosts == 0 && !old:
		return fault{message.BadHost, "no Host field"}
	case old && p.codings > 0:
		return fault{message.AmbiguousFraming, "Transfer-Encoding in an HTTP/1.0 request"}
	}
	if r.Authority == "" && p.hosts > 0 {
		r.Authority, r.Host = p.host, p.canonical
	}
	for _, option := range p.options {
		r.Header.Del(option)
	}
	r.Length = p.length
	if p.codings > 0 {
		r.Length = message.Unknown
	}
	r.Expect = p.expects > 0 && !old && r.Length != 0
	if p.websocket && p.upgrade && !old && r.Length == 0 && r.Method == http.MethodGet {
		r.Upgrade = "websocket"
	}
	return fault{}
}

// persists reports whether the client wants the connection to stay open (RFC 9112 §9.3).
func (p *requestHead) persists() bool {
	return !p.close && (p.r.Version != message.HTTP10 || p.keepAlive)
}

// parseLength parses a Content-Length: digits only.
func parseLength(value string) (n int64, ok bool) {
	if value == "" || len(value) > maxLength {
		return 0, false
	}
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(value[i]-'0')
	}
	return n, true
}

// checkCoding accepts a Transfer-Encoding of one chunked (RFC 9112 §6.1). Other codings are unknown; what is no list of codings,
// or has chunked where it must not be, is ambiguous.
func checkCoding(value string) fault {
	if message.EqualFold(value, "chunked") {
		return fault{}
	}
	for more := true; more; {
		var coding string
		coding, value, more = nextElement(value)
		name, _, parameters := strings.Cut(coding, ";")
		switch {
		case !isToken(trim(name)):
			return fault{message.AmbiguousFraming, "Transfer-Encoding is not a list of codings"}
		case message.EqualFold(trim(name), "chunked") && (more || parameters):
			return fault{message.AmbiguousFraming, "Transfer-Encoding has chunked twice, with a parameter or not at its end"}
		}
	}
	return fault{message.UnknownCoding, "a transfer coding other than chunked"}
}

// hasElement reports whether a list has an element, in any case.
func hasElement(list, want string) bool {
	for more := true; more; {
		var element string
		if element, list, more = nextElement(list); message.EqualFold(element, want) {
			return true
		}
	}
	return false
}

func join(list, more string) string {
	if list == "" {
		return more
	}
	return list + ", " + more
}
