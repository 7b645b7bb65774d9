package h1

import (
	"bytes"
	"strings"

	"sluice.dev/sluice/proxy/message"
)

// fault is why a message is refused. The zero value is none.
type fault struct {
	reason message.Reason // OK: no fault
	detail string
}

func (f fault) bad() bool { return f.reason != message.OK }

func malformed(detail string) fault { return fault{message.MalformedRequest, detail} }

var endOfHead = []byte("\r\n\r\n")

// headEnd returns the length of the head at the start of b, its empty line included, or 0 when b does not hold all of it. from is how much of
// b was looked at before.
func headEnd(b []byte, from int) int {
	from = max(0, from-len(endOfHead)+1)
	if i := bytes.Index(b[from:], endOfHead); i >= 0 {
		return from + i + len(endOfHead)
	}
	return 0
}

// nextLine takes a line off a head that ends with an empty line. It reports false for a line that ends in a bare LF.
func nextLine(head string) (line, rest string, ok bool) {
	i := strings.IndexByte(head, '\n')
	if i < 1 || head[i-1] != '\r' {
		return "", "", false
	}
	return head[:i-1], head[i+1:], true
}

const bareLF = "a line ends in LF without CR"

// splitField splits a field line (RFC 9112 §5) and checks every byte of it.
func splitField(line string) (name, value string, f fault) {
	colon := 0
	for colon < len(line) && bytesOf[line[colon]]&tokenByte != 0 {
		colon++
	}
	if colon == 0 || colon == len(line) || line[colon] != ':' {
		return "", "", malformed(nameFault(line, colon))
	}
	value = trim(line[colon+1:])
	if !isValue(value) {
		return "", "", malformed("a field value holds a control character")
	}
	return line[:colon], value, fault{}
}

func nameFault(line string, at int) string {
	switch {
	case at == 0 && (line[0] == ' ' || line[0] == '\t'):
		return "a field line starts with white space (obsolete folding)"
	case at == len(line):
		return "a field line has no colon"
	case at == 0 && line[0] == ':':
		return "a field has no name"
	case line[at] == ' ' || line[at] == '\t':
		return "white space before the colon of a field"
	}
	return "a field name holds a character that no name has"
}

// lexer looks at a head that has not arrived completely, so that a byte which can never become right is answered at once.
// It goes on where it stopped.
type lexer struct {
	at    int // how far it has looked
	line  int // where the line at that point starts
	part  linePart
	lines int // complete ones

	response bool // whose first line may hold more than a request line
}

type linePart uint8

const (
	inName  linePart = iota // of a field line, or in the method
	inValue                 // behind the colon, or behind the method
	wantLF                  // after CR
)

// advance looks at the rest of b, which starts where the head starts, and calls whole with each line that is complete.
func (l *lexer) advance(b []byte, whole func(number int, line string) fault) fault {
	for ; l.at < len(b); l.at++ {
		c := b[l.at]
		switch {
		case l.part == wantLF && c == '\n':
			if f := whole(l.lines, string(b[l.line:l.at-1])); f.bad() {
				return f
			}
			l.lines++
			l.part, l.line = inName, l.at+1
		case l.part == wantLF:
			return malformed("CR without LF")
		case c == '\n':
			return malformed(bareLF)
		case c == '\r':
			l.part = wantLF
		case l.lines == 0:
			if f := l.firstLine(c); f.bad() {
				return f
			}
		case l.part == inName && c == ':' && l.at > l.line:
			l.part = inValue
		case l.part == inName && bytesOf[c]&tokenByte == 0:
			return malformed(nameFault(string(b[l.line:l.at+1]), l.at-l.line))
		case bytesOf[c]&valueByte == 0:
			return malformed("a field value holds a control character")
		}
	}
	return fault{}
}

// firstLine looks at a byte of a request line or a status line.
func (l *lexer) firstLine(c byte) fault {
	switch {
	case l.response && bytesOf[c]&valueByte == 0:
		return malformed("the status line holds a control character")
	case l.response:
	case c == ' ' && l.at > 0:
		l.part = inValue
	case l.part == inName && bytesOf[c]&tokenByte == 0:
		return malformed("the method is not a token")
	case bytesOf[c]&(targetByte|tokenByte) == 0 || c == '#' && l.part == inValue:
		return fault{message.BadTarget, "the request target holds a character that it must not hold"}
	}
	return fault{}
}
