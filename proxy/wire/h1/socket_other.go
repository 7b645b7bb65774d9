//go:build !unix

package h1

import "net"

// socket knows nothing on this platform.
type socket struct{}

func (*socket) peek(net.Conn) (waiting, gone bool) { return false, false }
