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
	if len(encoded) < len(plain) {
		return false
	}
	at := 0
	for i := 0; i < len(encoded); i++ {
		if at == len(plain) {
			return false
		}
		c := encoded[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(encoded) && isHex(encoded[i+1]) && isHex(encoded[i+2]):
			c = unhex(encoded[i+1])<<4 | unhex(encoded[i+2])
			i += 2
		}
		if c != plain[at] {
			return false
		}
		at++
	}
	return at == len(plain)
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// decoded decodes text; without escapes it is returned as it is.
func decoded(encoded string) string {
	if strings.IndexByte(encoded, '%') < 0 && strings.IndexByte(encoded, '+') < 0 {
		return encoded
	}
	out := make([]byte, 0, len(encoded))
	for i := 0; i < len(encoded); i++ {
		c := encoded[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(encoded) && isHex(encoded[i+1]) && isHex(encoded[i+2]):
			c = unhex(encoded[i+1])<<4 | unhex(encoded[i+2])
			i += 2
		}
		out = append(out, c)
	}
	return string(out)
}
