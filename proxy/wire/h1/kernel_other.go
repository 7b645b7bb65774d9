//go:build !linux

package h1

import "net"

// unsent is not known on this platform.
func unsent(net.Conn) int { return 0 }

// hungUp reports, without waiting, whether the other side has closed or reset a connection and nothing waits in front of that.
func hungUp(s *socket, nc net.Conn) bool {
	_, gone := s.peek(nc)
	return gone
}
