package engine

import (
	"net/netip"
	"strings"

	"sluice.dev/sluice/proxy/message"
)

// peer is what the engine knows about the other end of a connection; it hangs at message.Conn.Traits.
type peer struct {
	addr    netip.Addr
	trusted bool // its forwarding fields are believed
}

// contains reports whether one of the prefixes holds the address.
func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// identify says who the client is. Only a trusted peer is asked: its X-Forwarded-For chain is walked from the right as far
// as the addresses are trusted themselves, so that what a client wrote in front of it counts for nothing.
func identify(trusted []netip.Prefix, p *peer, h *message.Header) netip.Addr {
	client := p.addr
	if !p.trusted {
		return client
	}
	for i := h.Len() - 1; i >= 0; i-- {
		f := h.At(i)
		if f.ID != message.XForwardedFor {
			continue
		}
		for rest, more := f.Value, true; more; {
			var hop string
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, hop = rest[:comma], rest[comma+1:]
			} else {
				hop, more = rest, false
			}
			addr, ok := parseHop(strings.Trim(hop, " \t"))
			if !ok {
				return client
			}
			client = addr
			if !contains(trusted, addr) {
				return client
			}
		}
	}
	return client
}

// parseHop reads an element of X-Forwarded-For: an address, also with a port or in brackets.
func parseHop(hop string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(hop)
	if err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if port, err := netip.ParseAddrPort(hop); err == nil {
		return port.Addr().Unmap().WithZone(""), true
	}
	if len(hop) > 2 && hop[0] == '[' && hop[len(hop)-1] == ']' {
		if addr, err = netip.ParseAddr(hop[1 : len(hop)-1]); err == nil {
			return addr.Unmap().WithZone(""), true
		}
	}
	return netip.Addr{}, false
}

// schemeOf is the scheme that the client used: what a trusted peer says, else that of the connection.
func schemeOf(r *message.Request) string {
	switch said, _ := r.Header.Value(message.XForwardedProto); {
	case message.EqualFold(said, "https"):
		return "https"
	case message.EqualFold(said, "http"):
		return "http"
	}
	return r.Scheme
}

// forward replaces the forwarding fields of a request. Those of an untrusted peer are dropped, all of them together, and
// ours stand instead; those of a trusted one stay, the chain gets its hop, and what is missing is added.
func forward(r *message.Request, conn *message.Conn, p *peer, client string) {
	h := &r.Header
	if !p.trusted {
		h.DelFunc(managed)
		addForwarded(h, message.XForwardedFor, conn.Peer)
		addForwarded(h, message.XForwardedHost, r.Authority)
		addForwarded(h, message.XForwardedProto, r.Scheme)
		addForwarded(h, message.XForwardedPort, conn.Port)
		addForwarded(h, message.XRealIP, conn.Peer)
		return
	}
	h.DelFunc(aliased)
	appendHop(h, conn.Peer)
	keepForwarded(h, message.XForwardedHost, r.Authority)
	keepForwarded(h, message.XForwardedProto, r.Scheme)
	keepForwarded(h, message.XForwardedPort, conn.Port)
	h.Set(message.XRealIP.Name(), client)
}

func addForwarded(h *message.Header, id message.ID, value string) {
	if value == "" { // no Host, in HTTP/1.0
		return
	}
	h.AddField(message.Field{ID: id, Name: id.Name(), Value: value})
}

func keepForwarded(h *message.Header, id message.ID, value string) {
	if _, found := h.Value(id); !found {
		addForwarded(h, id, value)
	}
}

// appendHop makes one X-Forwarded-For of all there are and puts the peer behind them.
func appendHop(h *message.Header, hop string) {
	first := -1
	for i := range h.Len() {
		f := h.At(i)
		switch {
		case f.ID != message.XForwardedFor:
		case first < 0:
			first = i
		default:
			h.At(first).Value += ", " + f.Value
		}
	}
	if first < 0 {
		addForwarded(h, message.XForwardedFor, hop)
		return
	}
	h.Set(message.XForwardedFor.Name(), h.At(first).Value+", "+hop)
}

// Field names that say where a request came from, in lower case; a name on a list ending in - or so is a prefix. Whoever
// receives the request believes them, so that only ours and those of trusted peers may reach it.
var (
	managedX      = [...]string{"x-real-ip", "x-request-id", "x-rewrite-url", "x-client-ip", "x-client-dn", "x-cluster-client-ip", "x-remote-ip", "x-remote-addr", "x-scheme", "x-azure-clientip", "x-azure-socketip", "x-appengine-user-ip"}
	managedXStart = [...]string{"x-forwarded", "x-original-", "x-envoy-", "x-client-cert", "x-client-verify", "x-ssl-", "x-tls-client", "x-sluice-"}
	managedRest   = [...]string{"forwarded", "true-client-ip", "client-ip", "client-cert", "client-cert-chain", "cf-connecting-ip", "cf-connecting-ipv6", "fastly-client-ip", "front-end-https", "proxy-client-ip", "wl-proxy-client-ip"}
)

// managed reports whether a field is one of those that only trusted peers may send, under its name or an alias of it: many
// programs take . and _ for -.
func managed(f *message.Field) bool {
	switch f.ID {
	case message.XForwardedFor, message.XForwardedHost, message.XForwardedProto, message.XForwardedPort,
		message.XRealIP, message.XRequestID, message.Forwarded:
		return true
	case message.Other:
		return managedName(f.Name)
	}
	return false
}

// aliased reports whether a field is an alias of a managed one; nobody sends such a thing for an honest reason.
func aliased(f *message.Field) bool {
	return f.ID == message.Other && strings.ContainsAny(f.Name, "._") && managedName(f.Name)
}

func managedName(name string) bool {
	switch first := name[0] | 0x20; {
	case first == 'x' && len(name) > 2 && dash(name[1]) == '-':
		for _, start := range managedXStart {
			if startsFold(name, start) {
				return true
			}
		}
		return anyFold(name, managedX[:])
	case first == 's':
		return startsFold(name, "ssl-client-")
	case first == 'f', first == 't', first == 'c', first == 'p', first == 'w':
		return anyFold(name, managedRest[:])
	}
	return false
}

func anyFold(name string, lower []string) bool {
	for _, l := range lower {
		if len(name) == len(l) && startsFold(name, l) {
			return true
		}
	}
	return false
}

// startsFold reports whether name starts with a prefix in lower case, letters in any case and . and _ as good as -.
func startsFold(name, lower string) bool {
	if len(name) < len(lower) {
		return false
	}
	for i := range len(lower) {
		c := dash(name[i])
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

func dash(c byte) byte {
	if c == '.' || c == '_' {
		return '-'
	}
	return c
}
