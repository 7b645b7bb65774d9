package engine

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/wire/h1"
)

// A connection that is turned away has a descriptor for a moment longer, so that what it is told does not get lost to a reset
// (RFC 9112 §9.6). Only so many have that at once.
const (
	mostParting = reserved / 2
	partingTime = 500 * time.Millisecond
	partingRead = 64 << 10
)

// turnAway ends a connection for which there is no room. A plain one is told so, as far as that needs no waiting.
func (e *Engine) turnAway(s *server, conn net.Conn) {
	info := describe(conn, nil)
	id := newRequestID()
	e.accountRefusal(s, info, &h1.Refusal{Reason: message.Overloaded, Start: e.settings.Now()}, id)
	if s.conns.https {
		conn.Close()
		return
	}
	_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)) // an empty send buffer takes it at once
	_, _ = conn.Write(overloaded(id))                                 // whoever is gone already need not hear it
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || !e.parting.take() {
		conn.Close()
		return
	}
	e.running.Go(func() {
		_ = conn.SetReadDeadline(time.Now().Add(partingTime)) // a connection that cannot have one is closed
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, partingRead))
		conn.Close()
		e.parting.give()
	})
}

func overloaded(id string) []byte {
	var p page
	p.fill(plain, message.Overloaded.Status(), id)
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nServer: sluice\r\nConnection: close\r\nRetry-After: 1\r\nCache-Control: no-store\r\n"+
		"Content-Type: text/plain; charset=utf-8\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", id, len(p.text), p.text)
}

// parting counts the connections that have been told to go.
type parting struct{ open atomic.Int64 }

func (p *parting) take() bool {
	if p.open.Add(1) > mostParting {
		p.give()
		return false
	}
	return true
}

func (p *parting) give() { p.open.Add(-1) }
