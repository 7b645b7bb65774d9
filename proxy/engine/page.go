package engine

import (
	"io"
	"net/http"
	"strconv"
	"strings"

	"sluice.dev/sluice/proxy/message"
)

// page is the body of an answer of our own. It belongs to an exchange and is filled anew for each.
type page struct {
	text []byte
	read int
}

func (p *page) Read(into []byte) (int, error) {
	n := copy(into, p.text[p.read:])
	if p.read += n; p.read == len(p.text) {
		return n, io.EOF
	}
	return n, nil
}

// Ready says that all of it is there, so that it goes out with the head.
func (p *page) Ready() (n int, end bool) { return len(p.text) - p.read, true }

// Trailer is nil: pages have none.
func (p *page) Trailer() *message.Header { return nil }

// Close does nothing; a page is reused, not released.
func (p *page) Close() error { return nil }

// format is the media type of a page.
type format uint8

const (
	plain format = iota
	html
	jsonFormat
)

var mediaTypes = [...]string{plain: "text/plain; charset=utf-8", html: "text/html; charset=utf-8", jsonFormat: "application/json"}

// dress gives an answer of our own its page: status and its standard text, and the request id by which the log can be
// searched; nothing else, since whoever asked is a stranger. A HEAD request gets the length only.
func (p *page) dress(r *message.Response, method, accept, id string) {
	form := preferred(accept)
	p.fill(form, r.Status, id)
	r.Header.AddField(message.Field{ID: message.ContentType, Name: "Content-Type", Value: mediaTypes[form]})
	r.Header.Add("X-Content-Type-Options", "nosniff")
	r.Header.Add("Cache-Control", "no-store")
	r.Length = int64(len(p.text))
	if method != http.MethodHead {
		r.Body = p
	}
}

func (p *page) fill(form format, status int, id string) {
	text := http.StatusText(status)
	if text == "" {
		text = "Error"
	}
	b := p.text[:0]
	switch form {
	case html:
		b = append(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>"...)
		b = append(strconv.AppendInt(b, int64(status), 10), ' ')
		b = append(append(b, text...), "</title></head>\n<body><h1>"...)
		b = append(strconv.AppendInt(b, int64(status), 10), ' ')
		b = append(append(b, text...), "</h1><p>Request id: <code>"...)
		b = append(appendEscaped(b, id), "</code></p></body></html>\n"...)
	case jsonFormat:
		b = append(b, `{"status":`...)
		b = append(strconv.AppendInt(b, int64(status), 10), `,"error":"`...)
		b = append(append(b, text...), `","requestId":"`...)
		b = append(appendEscaped(b, id), "\"}\n"...)
	default:
		b = append(strconv.AppendInt(b, int64(status), 10), ' ')
		b = append(append(b, text...), "\nrequest id: "...)
		b = append(appendEscaped(b, id), '\n')
	}
	p.text, p.read = b, 0
}

// appendEscaped appends a request id, of which a trusted peer's may hold anything, without what HTML or JSON could trip
// over.
func appendEscaped(b []byte, id string) []byte {
	for i := range len(id) {
		switch c := id[i]; {
		case c < ' ', c > '~', c == '<', c == '>', c == '&', c == '"', c == '\'', c == '\\':
			b = append(b, '?')
		default:
			b = append(b, c)
		}
	}
	return b
}

// preferred is the format that an Accept value likes best: the one with the highest weight, the first of equals, and plain
// text for those that do not care.
func preferred(accept string) format {
	best, weight := plain, 0
	for more := accept != ""; more; {
		var element string
		element, accept, more = strings.Cut(accept, ",")
		media, parameters, _ := strings.Cut(element, ";")
		form, known := formatOf(strings.Trim(media, " \t"))
		if !known {
			continue
		}
		if w := qualityOf(parameters); w > weight {
			best, weight = form, w
		}
	}
	return best
}

func formatOf(media string) (format, bool) {
	switch {
	case message.EqualFold(media, "text/html"), message.EqualFold(media, "application/xhtml+xml"):
		return html, true
	case message.EqualFold(media, "application/json"), message.EqualFold(media, "application/problem+json"), message.EqualFold(media, "application/*"):
		return jsonFormat, true
	case media == "*/*", message.EqualFold(media, "text/plain"), message.EqualFold(media, "text/*"):
		return plain, true
	}
	return plain, false
}

// qualityOf is the q parameter in thousandths, 1000 without one (RFC 9110 §12.4.2).
func qualityOf(parameters string) int {
	for more := parameters != ""; more; {
		var parameter string
		parameter, parameters, more = strings.Cut(parameters, ";")
		parameter = strings.Trim(parameter, " \t")
		if len(parameter) < 2 || parameter[0]|0x20 != 'q' || parameter[1] != '=' {
			continue
		}
		q, err := strconv.ParseFloat(parameter[2:], 64)
		if err != nil || q < 0 || q > 1 {
			return 0
		}
		return int(q * 1000)
	}
	return 1000
}
