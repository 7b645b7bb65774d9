package model

import (
	"net/netip"
	"slices"
)

// Guard judges addresses that somebody other than the operator named, directly or by a host name. A nil Guard judges those that the
// operator named.
type Guard struct {
	Refuse []netip.AddrPort // the API server's; plain, ordered
}

// Refuses says what an address is that requests must not be sent to; "" when they may. Addresses that carry another one, such as
// 64:ff9b::7f00:1, are judged by both.
func (g *Guard) Refuses(at netip.AddrPort) string {
	addr := at.Addr().WithZone("").Unmap()
	if what := g.judge(addr, at.Port()); what != "" {
		return what
	}
	if inner, ok := carried(addr); ok {
		return g.judge(inner, at.Port())
	}
	return ""
}

func (g *Guard) judge(addr netip.Addr, port uint16) string {
	switch {
	case !addr.IsValid() || addr.IsUnspecified():
		return "no address of a host"
	case addr.IsMulticast():
		return "the address of a group"
	case g == nil:
		return ""
	case addr.IsLoopback():
		return "an address of this host"
	case addr.IsLinkLocalUnicast():
		return "an address of the link"
	case slices.Contains(metadataAddresses(), addr):
		return "the address of a metadata service"
	case slices.Contains(g.Refuse, netip.AddrPortFrom(addr, port)):
		return "the address of the API server"
	}
	return ""
}

// metadataAddresses are those of cloud metadata services that are not link-local.
func metadataAddresses() []netip.Addr {
	return []netip.Addr{
		netip.AddrFrom4([4]byte{168, 63, 129, 16}),
		netip.AddrFrom4([4]byte{100, 100, 100, 200}),
		netip.AddrFrom4([4]byte{192, 0, 0, 192}),
		netip.AddrFrom16([16]byte{0xfd, 0, 0x0e, 0xc2, 15: 0x54, 14: 0x02}),
		netip.AddrFrom16([16]byte{0xfd, 0x20, 0, 0xce, 15: 0x54, 14: 0x02}),
	}
}

// carried returns the IPv4 address in one of NAT64 (RFC 6052 §2.1, RFC 8215), of 6to4 (RFC 3056 §2), or IPv4-compatible
// (RFC 4291 §2.5.5.1).
func carried(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	if b[0] == 0x20 && b[1] == 0x02 {
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	for _, prefix := range [][12]byte{{}, {0, 0x64, 0xff, 0x9b}, {0, 0x64, 0xff, 0x9b, 0, 1}} {
		if [12]byte(b[:12]) == prefix {
			return netip.AddrFrom4([4]byte(b[12:])), true
		}
	}
	return netip.Addr{}, false
}
