package route

import (
	"slices"
	"strings"
)

// queryHolds takes the condition to hold when any parameter of that name fits; a missing one counts as empty. The query is
// read as forms are written: parted by &, + for a space, %XX; a broken escape stands for itself. It is never changed.
func queryHolds(r *Request, c *condition) bool {
	found := false
	for rest := r.RawQuery; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		key, value, _ := strings.Cut(pair, "=")
		if !sameDecoded(key, c.key) {
			continue
		}
		if found = true; c.holdsEncoded(value) {
			return true
		}
	}
	return !found && c.holds("")
}

func (c *condition) holdsEncoded(value string) bool {
	if slices.ContainsFunc(c.values, func(want string) bool { return sameDecoded(value, want) }) {
		return true
	}
	return c.re != nil && c.re.MatchString(decoded(value))
}

// sameDecoded compares encoded text with plain text.
func sameDecoded(encoded, plain string) bool {
	at := 0
	for i := 0; i < len(encoded); at++ {
		c, n := decodedByte(encoded[i:])
		if at == len(plain) || c != plain[at] {
			return false
		}
		i += n
	}
	return at == len(plain)
}

// decoded decodes text; without escapes it is returned as it is.
func decoded(encoded string) string {
	if strings.IndexByte(encoded, '%') < 0 && strings.IndexByte(encoded, '+') < 0 {
		return encoded
	}
	out := make([]byte, 0, len(encoded))
	for i := 0; i < len(encoded); {
		c, n := decodedByte(encoded[i:])
		out = append(out, c)
		i += n
	}
	return string(out)
}

// decodedByte decodes the first byte of text that is not empty, and says how long it was.
func decodedByte(encoded string) (c byte, n int) {
	switch c := encoded[0]; {
	case c == '+':
		return ' ', 1
	case c == '%' && len(encoded) > 2 && isHex(encoded[1]) && isHex(encoded[2]):
		return unhex(encoded[1])<<4 | unhex(encoded[2]), 3
	}
	return encoded[0], 1
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}
