//go:build !linux

package h1

import "net"

// unsent is not known on this platform.
func unsent(net.Conn) int { return 0 }
