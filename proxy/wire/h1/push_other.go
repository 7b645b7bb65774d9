//go:build !unix

package h1

import "net"

// push writes plainly on this platform.
type push struct{}

func (*push) write(nc net.Conn, p []byte) (int, error) { return nc.Write(p) }
