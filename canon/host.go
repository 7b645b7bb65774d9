package canon

import (
	"net/netip"
	"strings"
)

// maxHost is the longest name that DNS has, without the final dot (RFC 1035 §3.1).
const maxHost = 253

// Host returns the canonical host of an authority such as the value of a Host field: lower case, without the port and one
// final dot, an IPv6 address without its brackets and in its shortest form (RFC 5952). It reports false for an empty host,
// an empty label, characters other than letters, digits, - and _, userinfo, a list, a port that is none, a name of more than 253 characters and
// a label that only pretends to be punycode. A canonical name is returned as it is, without allocation.
func Host(authority string) (string, bool) {
	host := authority
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 || !isPort(host[end+1:]) {
			return "", false
		}
		return ipv6(host[1:end])
	}
	if colon := strings.IndexByte(host, ':'); colon >= 0 {
		if !isPort(host[colon:]) {
			return "", false
		}
		host = host[:colon]
	}
	return name(host)
}

// RuleHost returns the form of a host pattern of a rule that Host gives to the hosts it means: "" for all hosts, a name, an
// IPv6 address with or without brackets, or text with one * at its start or its end. It reports false for anything else, a port too.
func RuleHost(pattern string) (string, bool) {
	switch {
	case pattern == "" || pattern == "*":
		return pattern, true
	case strings.HasPrefix(pattern, "*"):
		if rest, ok := partialName(strings.TrimSuffix(pattern[1:], ".")); ok && !strings.HasSuffix(rest, ".") {
			return "*" + rest, true
		}
		return "", false
	case strings.HasSuffix(pattern, "*"):
		if rest, ok := partialName(pattern[:len(pattern)-1]); ok {
			return rest + "*", true
		}
		return "", false
	case strings.HasPrefix(pattern, "[") && strings.HasSuffix(pattern, "]"):
		return ipv6(pattern[1 : len(pattern)-1])
	case strings.Count(pattern, ":") > 1:
		return ipv6(pattern)
	}
	return name(pattern)
}

// name is the canonical form of a name without port.
func name(host string) (string, bool) {
	host = strings.TrimSuffix(host, ".")
	if host == "" || len(host) > maxHost {
		return "", false
	}
	upper, start, puny := false, 0, false
	for i := 0; i <= len(host); i++ {
		if i == len(host) || host[i] == '.' {
			if i == start {
				return "", false
			}
			puny = puny || i-start >= 4 && host[start+2] == '-' && host[start+3] == '-'
			start = i + 1
			continue
		}
		switch c := host[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_':
		case 'A' <= c && c <= 'Z':
			upper = true
		default:
			return "", false
		}
	}
	if upper {
		host = strings.ToLower(host)
	}
	if puny && !genuine(host) {
		return "", false
	}
	return host, true
}

// partialName is the canonical form of the end or the start of a name, which may begin or end with a dot.
func partialName(part string) (string, bool) {
	if part == "" || part == "." || len(part) > maxHost || strings.Contains(part, "..") {
		return "", false
	}
	part = strings.ToLower(part)
	_, ok := name(strings.TrimPrefix(part, "."))
	return part, ok
}

func isPort(s string) bool {
	if s == "" || s == ":" {
		return true // RFC 3986 §3.2.3 allows the colon without a port
	}
	if s[0] != ':' || len(s) > 6 {
		return false
	}
	port := 0
	for i := 1; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		port = port*10 + int(s[i]-'0')
	}
	return port <= 65535
}

func ipv6(host string) (string, bool) {
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", false
	}
	var array [48]byte
	if canonical := addr.AppendTo(array[:0]); string(canonical) != host {
		return string(canonical), true
	}
	return host, true
}
