package h1

import (
	"net/http"

	"sluice.dev/sluice/proxy/message"
)

// responseHead parses the head of a response into a message.Response.
type responseHead struct {
	r      *message.Response
	fields int
	most   int

	lengths, codings int
	length           int64
	options          []string // of Connection, those that name fields
	close            bool
	keepAlive        bool
	upgrade          string // the Upgrade field
}

func (p *responseHead) reset(r *message.Response, most int) {
	clear(p.options)
	*p = responseHead{r: r, most: most, options: p.options[:0]}
	header := r.Header
	header.Reset()
	*r = message.Response{Version: message.HTTP11, Header: header, Length: message.Unknown}
}

func badResponse(detail string) fault { return fault{message.UpstreamMalformed, detail} }

func badFraming(detail string) fault { return fault{message.UpstreamFraming, detail} }

// parse parses a complete head.
func (p *responseHead) parse(head string) fault {
	line, rest, ok := nextLine(head)
	if !ok {
		return badResponse(bareLF)
	}
	if f := p.start(line); f.bad() {
		return f
	}
	for {
		if line, rest, ok = nextLine(rest); !ok {
			return badResponse(bareLF)
		}
		if line == "" {
			return p.finish()
		}
		if f := p.field(line); f.bad() {
			return f
		}
	}
}

// start parses the status line (RFC 9112 §4).
func (p *responseHead) start(line string) fault {
	const version = "HTTP/1."
	if len(line) < len("HTTP/1.1 200") || line[:len(version)] != version || line[8] != ' ' {
		return badResponse("the status line is not that of HTTP/1")
	}
	switch line[7] {
	case '1':
	case '0':
		p.r.Version = message.HTTP10
	default:
		return badResponse("the status line is not that of HTTP/1")
	}
	status := 0
	for _, c := range []byte(line[9:12]) {
		if c < '0' || c > '9' {
			return badResponse("the status is not a number of three digits")
		}
		status = status*10 + int(c-'0')
	}
	if status < 100 || status > 599 || len(line) > 12 && line[12] != ' ' {
		return badResponse("the status is none")
	}
	if !isValue(line[12:]) {
		return badResponse("the reason phrase holds a control character")
	}
	p.r.Status = status
	return fault{}
}

func (p *responseHead) field(line string) fault {
	if p.fields++; p.fields > p.most {
		return badResponse("too many fields")
	}
	name, value, f := splitField(line)
	if f.bad() {
		return badResponse(f.detail)
	}
	id := message.Lookup(name)
	if id == message.Other || id > message.HTTP2Settings {
		p.r.Header.AddField(message.Field{Name: name, Value: value, ID: id})
		return fault{}
	}
	return p.typed(id, value)
}

// typed takes in a field that never stands in the header.
func (p *responseHead) typed(id message.ID, value string) fault {
	switch id {
	case message.ContentLength:
		if p.lengths++; p.lengths > 1 {
			return badFraming("two Content-Length fields")
		}
		var ok bool
		if p.length, ok = parseLength(value); !ok {
			return badFraming("Content-Length is not a plain number")
		}
	case message.TransferEncoding:
		if p.codings++; p.codings > 1 {
			return badFraming("two Transfer-Encoding fields")
		}
		if !message.EqualFold(value, "chunked") {
			return badFraming("Transfer-Encoding is not chunked")
		}
	case message.Connection:
		p.connection(value)
	case message.Upgrade:
		p.upgrade = join(p.upgrade, value)
	case message.Trailer:
		p.r.Trailer = join(p.r.Trailer, value)
	}
	if p.lengths > 0 && p.codings > 0 {
		return badFraming("both Content-Length and Transfer-Encoding")
	}
	return fault{}
}

func (p *responseHead) connection(value string) {
	for more := true; more; {
		var option string
		option, value, more = nextElement(value)
		switch {
		case message.EqualFold(option, "close"):
			p.close = true
		case message.EqualFold(option, "keep-alive"):
			p.keepAlive = true
		case option != "" && !message.EqualFold(option, "upgrade") && len(p.options) < maxOptions:
			p.options = append(p.options, option)
		}
	}
}

func (p *responseHead) finish() fault {
	r := p.r
	if r.Version == message.HTTP10 && p.codings > 0 {
		return badFraming("Transfer-Encoding in an HTTP/1.0 response")
	}
	bodyless := r.Status < 200 || r.Status == http.StatusNoContent
	if bodyless && (p.length > 0 || r.Status < 200 && p.codings > 0) {
		return badFraming("a response that has no body declares one")
	}
	for _, option := range p.options {
		r.Header.Del(option)
	}
	if p.lengths > 0 && !bodyless {
		r.Length = p.length
	}
	return fault{}
}

func (p *responseHead) persists() bool {
	return !p.close && (p.r.Version != message.HTTP10 || p.keepAlive)
}
