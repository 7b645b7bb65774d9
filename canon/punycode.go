package canon

import (
	"strings"
	"unicode"
)

// genuine reports whether each label of a lower-case name that claims to be punycode (RFC 5891 §4.2.3.1) is: it decodes,
// to something that is not plain ASCII, and to nothing that an encoder would have mapped to something else. So no label can be
// taken for another name by a program that decodes it first.
func genuine(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if encoded, is := strings.CutPrefix(label, "xn--"); is && !genuineLabel(encoded) {
			return false
		}
	}
	return true
}

func genuineLabel(encoded string) bool {
	runes, ok := decode(encoded)
	if !ok {
		return false
	}
	foreign := false
	for _, r := range runes {
		switch {
		case r < 0x80:
			continue
		case !unicode.IsGraphic(r) && r != 0x200c && r != 0x200d, unicode.IsSpace(r):
			return false
		case unicode.ToLower(r) != r, 0xff00 <= r && r <= 0xffef, r == '。', r == '․':
			return false // an encoder maps these: capitals, full-width forms, dots
		}
		foreign = true
	}
	return foreign
}

// The parameters of punycode (RFC 3492 §5).
const (
	base        = 36
	tMin        = 1
	tMax        = 26
	skew        = 38
	damp        = 700
	initialBias = 72
	initialN    = 0x80
	maxLabel    = 63
)

// decode decodes a punycode label without its xn-- (RFC 3492 §6.2).
func decode(encoded string) ([]rune, bool) {
	if encoded == "" || len(encoded) > maxLabel {
		return nil, false
	}
	runes := make([]rune, 0, len(encoded))
	if last := strings.LastIndexByte(encoded, '-'); last >= 0 {
		runes = append(runes, []rune(encoded[:last])...)
		encoded = encoded[last+1:]
	}
	n, at, bias := initialN, 0, initialBias
	for encoded != "" {
		delta, rest, ok := varint(encoded, bias)
		if !ok {
			return nil, false
		}
		size := len(runes) + 1
		bias = adapt(delta, size, at == 0)
		encoded, at = rest, at+delta
		n, at = n+at/size, at%size
		if n > unicode.MaxRune || 0xd800 <= n && n < 0xe000 {
			return nil, false
		}
		runes = append(runes, 0)
		copy(runes[at+1:], runes[at:])
		runes[at] = rune(n)
		at++
	}
	return runes, true
}

// varint reads one number of variable length and returns what follows it.
func varint(encoded string, bias int) (value int, rest string, ok bool) {
	weight := 1
	for i, k := 0, base; i < len(encoded); i, k = i+1, k+base {
		digit := digitValue(encoded[i])
		value += digit * weight
		if digit < 0 || value > unicode.MaxRune*maxLabel {
			return 0, "", false
		}
		t := min(max(k-bias, tMin), tMax)
		if digit < t {
			return value, encoded[i+1:], true
		}
		weight *= base - t
	}
	return 0, "", false
}

func digitValue(c byte) int {
	switch {
	case 'a' <= c && c <= 'z':
		return int(c - 'a')
	case '0' <= c && c <= '9':
		return int(c-'0') + 26
	}
	return -1
}

// adapt is RFC 3492 §6.1.
func adapt(delta, size int, first bool) int {
	if first {
		delta /= damp
	} else {
		delta /= 2
	}
	delta += delta / size
	k := 0
	for ; delta > (base-tMin)*tMax/2; k += base {
		delta /= base - tMin
	}
	return k + (base-tMin+1)*delta/(delta+skew)
}
