package model

import (
	"fmt"
	"net/netip"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// check gathers what is wrong with the fields of one object.
type check struct {
	origin   Origin
	problems []Problem
}

// at is a field path under construction.
type at string

func (f at) dot(name string) at {
	if f == "" {
		return at(name)
	}
	return f + at("."+name)
}

func (f at) index(i int) at { return f + at("["+strconv.Itoa(i)+"]") }

// key is the path of a map's key, written as in Kubernetes.
func (f at) key(name string) at {
	if name == "" || strings.ContainsAny(name, ".[]/ \"\n") {
		return f + at("["+name+"]")
	}
	return f.dot(name)
}

func (c *check) add(severity Severity, field at, reason, message, mend string) {
	origin := c.origin
	if origin.Field != "" && field != "" {
		field = at(origin.Field).dot(string(field))
	} else if field == "" {
		field = at(origin.Field)
	}
	origin.Field = string(field)
	c.problems = append(c.problems, Problem{origin, reason, message, mend, severity})
}

func (c *check) wrong(field at, reason, message, mend string) {
	c.add(Error, field, reason, message, mend)
}

func (c *check) doubt(field at, reason, message, mend string) {
	c.add(Warning, field, reason, message, mend)
}

func (c *check) meta(m *Meta) {
	if m.Name == "" {
		c.wrong("name", "NameMissing", "the object has no name", "give it one, unique among those of its kind")
	}
}

func (c *check) ipFilter(field at, f *IPFilter) {
	if f == nil {
		return
	}
	c.addresses(field.dot("allowIPs"), f.AllowIPs)
	c.addresses(field.dot("blockIPs"), f.BlockIPs)
}

func (c *check) addresses(field at, list []string) {
	for i, text := range list {
		var err error
		if strings.Contains(text, "/") {
			_, err = netip.ParsePrefix(text)
		} else {
			_, err = netip.ParseAddr(text)
		}
		if err != nil {
			c.wrong(field.index(i), "InvalidIP", fmt.Sprintf("%q is neither an IP address nor a CIDR range", clip(text)), "write 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32")
		}
	}
}

// maxRegexp is the longest regular expression, in bytes.
const maxRegexp = 4096

func (c *check) regexp(field at, text string) {
	if len(text) > maxRegexp {
		c.wrong(field, "InvalidRegexp", fmt.Sprintf("a regular expression of %d bytes, more than %d", len(text), maxRegexp), "split it into several rules")
		return
	}
	if _, err := syntax.Parse(text, syntax.Perl); err != nil {
		message := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		mend := "write it in RE2 syntax"
		if strings.Contains(message, "(?=") || strings.Contains(message, "(?!") || strings.Contains(message, "(?<") || strings.Contains(message, `\1`) {
			mend = "RE2 has no look-around and no back references: write it without"
		}
		c.wrong(field, "InvalidRegexp", fmt.Sprintf("%q is no regular expression: %s", clip(text), clip(message)), mend)
	}
}

func stripSpace(s string) string { return strings.Join(strings.Fields(s), "") }

// clip keeps what users wrote short enough for a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// isToken reports whether s is a token of RFC 9110 §5.6.2, such as a method or a field name.
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return s != ""
}

// isLabel reports whether s can be the name of a Kubernetes namespace or Service (RFC 1123).
func isLabel(s string) bool {
	return s != "" && len(s) <= 63 && isSubdomain(s) && !strings.Contains(s, ".")
}

// isSubdomain reports whether s can be the name of a Kubernetes object.
func isSubdomain(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || part[0] == '-' || part[len(part)-1] == '-' || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

// ParseService splits "namespace/name:port"; the port is a number or a name.
func ParseService(s string) (namespace, name, port string, ok bool) {
	namespace, rest, found := strings.Cut(s, "/")
	name, port, hasPort := strings.Cut(rest, ":")
	ok = found && hasPort && isLabel(namespace) && isLabel(name) && isPortName(port)
	return namespace, name, port, ok
}

func isPortName(s string) bool {
	if n, err := strconv.Atoi(s); err == nil {
		return n >= 1 && n <= 65535
	}
	return len(s) <= 63 && isLabel(strings.ToLower(s))
}

// sortedKeys is for maps whose problems must come in the same order each time.
func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
