package h1

import (
	"strings"

	"sluice.dev/sluice/proxy/message"
)

// Names, in lower case, that must not come in a trailer section (RFC 9110 §6.5.1): whoever merges trailers into the head would act on
// them. A name that ends in - is the start of one.
var neverTrails = [...]string{
	"host", "content-", "transfer-encoding", "trailer", "te", "connection", "keep-alive", "proxy-", "upgrade", "expect",
	"http2-settings", "cache-control", "max-forwards", "range", "accept", "if-", "authorization", "authentication-info", "www-authenticate", "cookie", "set-cookie",
	"age", "date", "expires", "location", "retry-after", "vary", "warning", "pragma", "server", "via", "origin", "referer", "user-agent",
	"forwarded", "x-forwarded", "x-forwarded-", "x-real-ip", "x-request-id", "x-original-", "x-envoy-", "x-sluice-", "x-client-", "x-ssl-",
	"x-http-method-override", "true-client-ip", "client-", "ssl-client-", "cf-connecting-ip",
}

// MayTrail reports whether a trailer field of that name is passed on. Names with _ never are, and . counts as -.
func MayTrail(name string) bool {
	if strings.IndexByte(name, '_') >= 0 {
		return false
	}
	for _, never := range neverTrails {
		if len(name) < len(never) || len(name) > len(never) && never[len(never)-1] != '-' {
			continue
		}
		if sameName(name[:len(never)], never) {
			return false
		}
	}
	return true
}

// sameName compares field names as careless programs do: in any case, with . and _ as good as -.
func sameName(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if folded(a[i]) != folded(b[i]) {
			return false
		}
	}
	return true
}

func folded(c byte) byte {
	switch {
	case c == '.' || c == '_':
		return '-'
	case 'A' <= c && c <= 'Z':
		return c | 0x20
	}
	return c
}

const maxAnnounced = 32

// announce returns those of the announced trailer names that may be passed on behind a head with the given fields: a trailer must
// not speak for a field of the head. Of a long list only the start counts.
func announce(announced string, h *message.Header) string {
	if announced == "" {
		return ""
	}
	allowed := ""
	rest, more := announced, true
	for n := 0; more && n < maxAnnounced; n++ {
		var name string
		name, rest, more = nextElement(rest)
		if isToken(name) && MayTrail(name) && !standsIn(h, name) && !hasElement(allowed, name) {
			allowed = join(allowed, name)
		}
	}
	return allowed
}

func standsIn(h *message.Header, name string) bool {
	for i := range h.Len() {
		if sameName(h.At(i).Name, name) {
			return true
		}
	}
	return false
}
