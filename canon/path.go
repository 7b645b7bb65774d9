package canon

import "strings"

// class says what the canonical form of a path does with a byte.
type class uint8

const (
	refuse class = iota // controls, space, bytes above 0x7f, ? and #: no request target has them in its path
	plain               // unreserved: stands for itself, and its escape is decoded
	keep                // reserved and allowed in a path: itself and its escape mean different things, both stay
	encode              // printable, but not allowed in a path: escaped
	escape              // %
	slash               // /
)

var classes = func() (t [256]class) {
	for c := byte('!'); c < 0x7f; c++ {
		t[c] = encode
	}
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~") {
		t[c] = plain
	}
	for _, c := range []byte("!$&'()*+,;=:@") {
		t[c] = keep
	}
	t['?'], t['#'], t['%'], t['/'] = refuse, refuse, escape, slash
	return t
}()

const hexDigits = "0123456789ABCDEF"

// Path returns the canonical form of the path of a request target (RFC 3986 §6.2.2): escapes of unreserved characters
// decoded, hex digits in upper case, dot segments removed, printable characters that a path must not have escaped (so
// a backslash becomes %5C). Empty segments are kept, and %2F and %5C stay encoded. It reports false for a path that does not start
// with a slash, has a broken escape, %00, a control, space, ?, # or a byte above 0x7f. A canonical path is returned as it
// is, without allocation.
func Path(raw string) (string, bool) {
	if raw == "" || raw[0] != '/' {
		return "", false
	}
	if isCanonical(raw) {
		return raw, true
	}
	return rewrite(raw, false, false)
}

// RulePath returns the form that a request has whose path is meant by an exact path or a path of whole elements in a rule.
// Other than Path it takes any character: what a request would have to escape is escaped, and a % that starts no escape
// stands for itself. It reports false when the path does not start with a slash or has a NUL.
func RulePath(path string) (string, bool) { return rulePath(path, false) }

// RulePrefix is RulePath for a path that ends anywhere in a segment: its last segment is left alone even when it is a dot
// segment, since the prefix /. means /.well-known and not everything.
func RulePrefix(prefix string) (string, bool) { return rulePath(prefix, true) }

// RuleText is RulePath for a piece of a path, such as the text between the parameters of a pattern: it may start anywhere
// and dot segments stay.
func RuleText(text string) (string, bool) {
	out, ok := appendSegment(make([]byte, 0, len(text)+16), text, true)
	return string(out), ok
}

func rulePath(path string, openEnd bool) (string, bool) {
	if path == "" || path[0] != '/' {
		return "", false
	}
	return rewrite(path, true, openEnd)
}

// isCanonical is false for some paths that are canonical, such as one with a segment "...", and never true for one that is
// not.
func isCanonical(raw string) bool {
	for i := 0; i < len(raw); i++ {
		switch classes[raw[i]] {
		case plain, keep:
		case slash:
			if i+1 < len(raw) && raw[i+1] == '.' && dotSegment(raw[i+1:]) {
				return false
			}
		case escape:
			if i+2 >= len(raw) || !upperHex(raw[i+1]) || !upperHex(raw[i+2]) {
				return false
			}
			if c := unhex(raw[i+1])<<4 | unhex(raw[i+2]); c == 0 || classes[c] == plain {
				return false
			}
			i += 2
		default:
			return false
		}
	}
	return true
}

// dotSegment reports whether s, which starts with a dot, may start with a dot segment.
func dotSegment(s string) bool {
	s = s[1:]
	if s != "" && (s[0] == '.' || s[0] == '%') {
		s = s[1:] // %2E decodes to a dot; whatever other escape it is, the slow way decides
		return s == "" || s[0] == '/' || s[0] == '2'
	}
	return s == "" || s[0] == '/'
}

// rewrite does the work of Path and, lenient, of RulePath. With openEnd the last segment is not taken for a dot segment.
func rewrite(raw string, lenient, openEnd bool) (string, bool) {
	out := make([]byte, 0, len(raw)+16)
	for rest, more := raw[1:], true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		start := len(out)
		out = append(out, '/')
		var ok bool
		if out, ok = appendSegment(out, segment, lenient); !ok {
			return "", false
		}
		if openEnd && !more {
			break
		}
		switch string(out[start+1:]) {
		case ".":
			out = out[:start]
		case "..":
			out = parent(out[:start])
		default:
			continue
		}
		if !more {
			out = append(out, '/')
		}
	}
	return string(out), true
}

// parent cuts the last segment off; the root has none.
func parent(out []byte) []byte {
	for i := len(out) - 1; i >= 0; i-- {
		if out[i] == '/' {
			return out[:i]
		}
	}
	return out
}

func appendSegment(out []byte, segment string, lenient bool) ([]byte, bool) {
	for i := 0; i < len(segment); i++ {
		c := segment[i]
		switch classes[c] {
		case plain, keep, slash:
			out = append(out, c)
		case encode:
			out = appendEscape(out, c)
		case escape:
			if i+2 >= len(segment) || !isHex(segment[i+1]) || !isHex(segment[i+2]) {
				if !lenient {
					return nil, false
				}
				out = appendEscape(out, c)
				continue
			}
			c = unhex(segment[i+1])<<4 | unhex(segment[i+2])
			i += 2
			switch {
			case c == 0:
				return nil, false
			case classes[c] == plain:
				out = append(out, c)
			default:
				out = appendEscape(out, c)
			}
		default:
			if !lenient || c == 0 {
				return nil, false
			}
			out = appendEscape(out, c)
		}
	}
	return out, true
}

func appendEscape(out []byte, c byte) []byte {
	return append(out, '%', hexDigits[c>>4], hexDigits[c&15])
}

func upperHex(c byte) bool { return '0' <= c && c <= '9' || 'A' <= c && c <= 'F' }

func isHex(c byte) bool { return upperHex(c) || 'a' <= c && c <= 'f' }

// unhex is the value of a hex digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}
