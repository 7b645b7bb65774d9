package model

import (
	"net/netip"
	"testing"
)

func TestG4_AddressesThatCarryAnother(t *testing.T) {
	guard := &Guard{Refuse: []netip.AddrPort{netip.MustParseAddrPort("10.96.0.1:443"), netip.MustParseAddrPort("[fd00::1]:6443")}}
	for _, c := range []struct {
		address   string
		api, mine string // what the guard says, and what a nil one does
	}{
		{"10.0.0.1:80", "", ""},
		{"[fd01::1]:80", "", ""},
		{"127.0.0.1:80", "an address of this host", ""},
		{"[::1]:80", "an address of this host", ""},
		{"[::ffff:127.0.0.1]:80", "an address of this host", ""},
		{"[64:ff9b::7f00:1]:80", "an address of this host", ""},
		{"[64:ff9b:1::a9fe:a9fe]:80", "an address of the link", ""},
		{"[2002:7f00:1::]:80", "an address of this host", ""},
		{"[2002:a9fe:a9fe::1]:80", "an address of the link", ""},
		{"[::127.0.0.1]:80", "an address of this host", ""},
		{"[fe80::1%eth0]:80", "an address of the link", ""},
		{"169.254.169.254:80", "an address of the link", ""},
		{"[64:ff9b::6464:64c8]:80", "the address of a metadata service", ""},
		{"100.100.100.200:80", "the address of a metadata service", ""},
		{"[fd00:ec2::254]:80", "the address of a metadata service", ""},
		{"[fd20:ce::254]:80", "the address of a metadata service", ""},
		{"0.0.0.0:80", "no address of a host", "no address of a host"},
		{"[::]:80", "no address of a host", "no address of a host"},
		{"[64:ff9b::]:80", "no address of a host", "no address of a host"},
		{"224.0.0.1:80", "the address of a group", "the address of a group"},
		{"[ff02::1]:80", "the address of a group", "the address of a group"},
		{"10.96.0.1:443", "the address of the API server", ""},
		{"[::ffff:10.96.0.1]:443", "the address of the API server", ""},
		{"[64:ff9b::a60:1]:443", "the address of the API server", ""},
		{"[2002:a60:1::]:443", "the address of the API server", ""},
		{"[fd00::1]:6443", "the address of the API server", ""},
		{"10.96.0.1:80", "", ""},
		{"[64:ff9b::a00:1]:80", "", ""},
		{"[2002:a00:1::]:80", "", ""},
	} {
		at := netip.MustParseAddrPort(c.address)
		if got := guard.Refuses(at); got != c.api {
			t.Errorf("%s: %q, want %q", c.address, got, c.api)
		}
		if got := (*Guard)(nil).Refuses(at); got != c.mine {
			t.Errorf("%s, named by the operator: %q, want %q", c.address, got, c.mine)
		}
	}
	if (&Guard{}).Refuses(netip.AddrPort{}) == "" {
		t.Error("no address at all is let through")
	}
}
