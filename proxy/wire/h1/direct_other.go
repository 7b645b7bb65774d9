//go:build !unix

package h1

import "net"

// direct cannot be used on this platform.
type direct struct {
	phase   directPhase
	written int
	n       int
	err     error
}

type directPhase uint8

const (
	looking directPhase = iota
	stale
	writing
	reading
)

func (*direct) open(net.Conn) bool { return false }

func (*direct) exchange(*outlet, []byte) {}
