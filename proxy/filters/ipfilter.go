package filters

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"sluice.dev/sluice/model"
)

// IPFilter decides which addresses may come in. It is immutable; nil lets all in.
type IPFilter struct {
	allow, block ranges
	only         bool // there is a list of those to let in
	fallback     bool // for an address in both lists, or in neither when there is no list of those to let in
}

// NewIPFilter compiles a filter; nil for nil. Its errors are joined FieldErrors. An address written as IPv4-mapped IPv6 is
// the IPv4 address.
func NewIPFilter(spec *model.IPFilter) (*IPFilter, error) {
	if spec == nil {
		return nil, nil
	}
	allow, allowErrs := parseRanges("allowIPs", spec.AllowIPs)
	block, blockErrs := parseRanges("blockIPs", spec.BlockIPs)
	if err := errors.Join(append(allowErrs, blockErrs...)...); err != nil {
		return nil, err
	}
	return &IPFilter{allow: allow, block: block, only: len(spec.AllowIPs) > 0, fallback: !spec.BlockByDefault}, nil
}

// Allow reports whether addr may come in. An invalid address may not.
func (f *IPFilter) Allow(addr netip.Addr) bool {
	if f == nil {
		return true
	}
	if !addr.IsValid() {
		return false
	}
	addr = addr.Unmap().WithZone("")
	allowed, blocked := f.allow.contains(addr), f.block.contains(addr)
	switch {
	case allowed && blocked:
		return f.fallback
	case allowed:
		return true
	case blocked, f.only:
		return false
	}
	return f.fallback
}

// AllowText is Allow for an address as text; what is no address may not come in.
func (f *IPFilter) AllowText(ip string) bool {
	if f == nil {
		return true
	}
	addr, err := netip.ParseAddr(ip)
	return err == nil && f.Allow(addr)
}

// ranges are disjoint spans of addresses in order, IPv4 before IPv6 as netip orders them.
type ranges []span

type span struct{ first, last netip.Addr }

func (r ranges) contains(addr netip.Addr) bool {
	i, found := slices.BinarySearchFunc(r, addr, func(s span, a netip.Addr) int { return s.first.Compare(a) })
	if found {
		return true
	}
	return i > 0 && r[i-1].last.Compare(addr) >= 0 && r[i-1].last.BitLen() == addr.BitLen()
}

func parseRanges(field string, texts []string) (ranges, []error) {
	var all ranges
	var errs []error
	for i, text := range texts {
		s, err := parseSpan(text)
		if err != nil {
			errs = append(errs, &FieldError{
				fmt.Sprintf("%s[%d]", field, i), fmt.Sprintf("%q is no address and no network", text), "write it as 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32",
			})
			continue
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b span) int { return a.first.Compare(b.first) })
	merged := all[:0]
	for _, s := range all {
		last := len(merged) - 1
		if last >= 0 && merged[last].last.BitLen() == s.first.BitLen() && merged[last].last.Compare(s.first) >= 0 {
			if s.last.Compare(merged[last].last) > 0 {
				merged[last].last = s.last
			}
			continue
		}
		merged = append(merged, s)
	}
	return merged, errs
}

func parseSpan(text string) (span, error) {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return span{addr, addr}, nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return span{}, err
	}
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	prefix = prefix.Masked()
	return span{prefix.Addr(), lastOf(prefix)}, nil
}

// lastOf is the highest address of a network.
func lastOf(p netip.Prefix) netip.Addr {
	raw := p.Addr().As16()
	offset := 128 - p.Addr().BitLen()
	for bit := offset + p.Bits(); bit < 128; bit++ {
		raw[bit/8] |= 0x80 >> (bit % 8)
	}
	last := netip.AddrFrom16(raw)
	if p.Addr().Is4() {
		last = last.Unmap()
	}
	return last
}
