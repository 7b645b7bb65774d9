package h1

// Classes of bytes in a head (RFC 9110 §5.5, §5.6.2; RFC 9112 §3).
const (
	tokenByte  = 1 << iota // tchar
	valueByte              // may stand in a field value: HTAB, SP, VCHAR, obs-text
	targetByte             // may stand in a request target: VCHAR without #
)

var bytesOf = func() (t [256]uint8) {
	for c := 0x21; c < 0x7f; c++ {
		t[c] |= valueByte | targetByte
	}
	t['#'] &^= targetByte
	for c := 0x80; c <= 0xff; c++ {
		t[c] |= valueByte
	}
	t[' '] |= valueByte
	t['\t'] |= valueByte
	for _, c := range "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" {
		t[c] |= tokenByte
	}
	return t
}()

func isToken(s string) bool {
	for i := range len(s) {
		if bytesOf[s[i]]&tokenByte == 0 {
			return false
		}
	}
	return s != ""
}

func isValue(s string) bool {
	for i := range len(s) {
		if bytesOf[s[i]]&valueByte == 0 {
			return false
		}
	}
	return true
}

func isTarget(s string) bool {
	for i := range len(s) {
		if bytesOf[s[i]]&targetByte == 0 {
			return false
		}
	}
	return s != ""
}

// trim removes optional white space (OWS) from both ends.
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// nextElement takes the first element off a comma-separated list, trimmed; it may be empty.
func nextElement(list string) (element, rest string, more bool) {
	for i := range len(list) {
		if list[i] == ',' {
			return trim(list[:i]), list[i+1:], true
		}
	}
	return trim(list), "", false
}
