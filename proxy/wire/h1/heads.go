package h1

import (
	"bytes"
	"net/http"
	"strconv"

	"sluice.dev/sluice/proxy/message"
)

// statusLines are the first lines of responses, by status.
var statusLines = func() (lines [600]string) {
	for status := 100; status < len(lines); status++ {
		lines[status] = "HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status) + "\r\n"
	}
	return lines
}()

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ':', ' ')
	b = append(b, value...)
	return append(b, '\r', '\n')
}

func appendLength(b []byte, n int64) []byte {
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, n, 10)
	return append(b, '\r', '\n')
}

// present says which fields a header had that the writer would otherwise add.
type present struct{ date, server bool }

// appendFields appends the fields of h but those that frame a message or concern one connection. Fields with a control
// character are dropped: somebody made them of what a stranger sent.
func appendFields(b []byte, h *message.Header) ([]byte, present) {
	start, lines := len(b), 0
	var p present
	fields := h.Fields()
	for i := range fields {
		f := &fields[i]
		switch {
		case f.ID == message.Date:
			p.date = true
		case f.ID == message.Server:
			p.server = true
		case f.ID != message.Other && f.ID <= message.HTTP2Settings:
			continue
		}
		b = appendField(b, f.Name, f.Value)
		lines++
	}
	if clean(b[start:], lines) {
		return b, p
	}
	b = b[:start]
	for i := range fields {
		f := &fields[i]
		if isToken(f.Name) && isValue(f.Value) && (f.ID == message.Other || f.ID > message.HTTP2Settings) {
			b = appendField(b, f.Name, f.Value)
		}
	}
	return b, p
}

// clean reports whether b is a number of lines and has no line breaks and no NUL but theirs.
func clean(b []byte, lines int) bool {
	return bytes.Count(b, []byte{'\n'}) == lines && bytes.Count(b, []byte{'\r'}) == lines && bytes.IndexByte(b, 0) < 0
}
