package upstream

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Lookup finds the addresses of a host name, and how long they hold; 0 is not known.
type Lookup func(ctx context.Context, host string) (addrs []netip.Addr, ttl time.Duration, err error)

// resolver asks the hosts file and the DNS servers of this machine, as its resolv.conf has them.
type resolver struct {
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	routable func(netip.Addr) bool
}

func newResolver() *resolver {
	return &resolver{dial: (&net.Dialer{}).DialContext, routable: routable}
}

// lookUp is Lookup. Of a name with addresses of both families it leaves out those of IPv6 that this machine has no way to.
func (r *resolver) lookUp(ctx context.Context, host string) ([]netip.Addr, time.Duration, error) {
	heard := &hearing{}
	one := net.Resolver{PreferGo: true, Dial: func(dialing context.Context, network, address string) (net.Conn, error) {
		conn, err := r.dial(dialing, network, address)
		if err != nil {
			return nil, err
		}
		return heard.listen(ctx, conn), nil
	}}
	addrs, err := one.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, 0, err // a *net.DNSError, which says what was looked up
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	if addrs[0].Is4() { // they come first
		addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return a.Is6() && !r.routable(a) })
	}
	return addrs, heard.ttl(), nil
}

// routable reports whether there is a route to an address. Nothing is sent.
func routable(addr netip.Addr) bool {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was sent
	return true
}

// hearing is what the answers to one lookup say of the time to live of their records.
type hearing struct {
	mu       sync.Mutex
	shortest uint32 // seconds
	some     bool
}

func (h *hearing) ttl() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.some {
		return 0
	}
	return max(time.Duration(h.shortest)*time.Second, shortestHold)
}

// take reads the answer to a question.
func (h *hearing) take(asked uint16, message []byte) {
	var p dnsmessage.Parser
	head, err := p.Start(message)
	if err != nil || !head.Response || head.ID != asked || p.SkipAllQuestions() != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		record, err := p.AnswerHeader()
		if err != nil {
			return
		}
		if !h.some || record.TTL < h.shortest {
			h.shortest, h.some = record.TTL, true
		}
		if p.SkipAnswer() != nil {
			return
		}
	}
}

// listen returns conn, which from now on is heard, and which ends when ctx does: the resolver would wait for an answer.
func (h *hearing) listen(ctx context.Context, conn net.Conn) net.Conn {
	c := &heardConn{Conn: conn, heard: h}
	c.stop = context.AfterFunc(ctx, func() { conn.Close() })
	if udp, ok := conn.(*net.UDPConn); ok {
		return &heardPackets{c, udp}
	}
	c.stream = true
	return c
}

// heardConn is a connection to a DNS server. It carries one question and its answer.
type heardConn struct {
	net.Conn
	heard  *hearing
	stream bool // messages begin with their length
	asked  uint16
	read   []byte // of a stream
	stop   func() bool
}

// Write notes which question is asked.
func (c *heardConn) Write(p []byte) (int, error) {
	question := p
	if c.stream && len(p) >= 2 {
		question = p[2:]
	}
	if len(question) >= 2 {
		c.asked = binary.BigEndian.Uint16(question)
	}
	return c.Conn.Write(p)
}

// Read hears what comes.
func (c *heardConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.stream {
		c.heard.take(c.asked, p[:n])
		return n, err
	}
	c.read = append(c.read, p[:n]...)
	if len(c.read) >= 2 {
		if end := 2 + int(binary.BigEndian.Uint16(c.read)); len(c.read) >= end {
			c.heard.take(c.asked, c.read[2:end])
		}
	}
	return n, err
}

// Close closes the connection.
func (c *heardConn) Close() error {
	c.stop()
	return c.Conn.Close()
}

// heardPackets tells the resolver, by being a net.PacketConn, that messages have no length before them.
type heardPackets struct {
	*heardConn
	udp *net.UDPConn
}

// ReadFrom is that of net.PacketConn; the resolver does not call it.
func (c *heardPackets) ReadFrom(p []byte) (int, net.Addr, error) { return c.udp.ReadFrom(p) }

// WriteTo is that of net.PacketConn; the resolver does not call it.
func (c *heardPackets) WriteTo(p []byte, to net.Addr) (int, error) { return c.udp.WriteTo(p, to) }
