package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers DNS questions over UDP and TCP on one port of this host.
type nameServer struct {
	address string
	records func(q dnsmessage.Question) ([]dnsmessage.Resource, dnsmessage.RCode)
	short   bool // of answers over UDP, that they are cut
	silent  bool
	streams atomic.Int64
}

func (s *nameServer) start(t *testing.T) *nameServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	udp, err := net.ListenPacket("udp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { s.packets(udp) })
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.streams.Add(1)
			s.stream(c)
			c.Close()
		}
	})
	t.Cleanup(func() {
		l.Close()
		udp.Close()
		running.Wait()
	})
	return s
}

func (s *nameServer) packets(udp net.PacketConn) {
	b := make([]byte, 1500)
	for {
		n, from, err := udp.ReadFrom(b)
		if err != nil {
			return
		}
		if !s.silent {
			_, _ = udp.WriteTo(s.answer(b[:n], s.short), from)
		}
	}
}

func (s *nameServer) stream(c net.Conn) {
	b := make([]byte, 1500)
	if _, err := io.ReadFull(c, b[:2]); err != nil {
		return
	}
	n := binary.BigEndian.Uint16(b)
	if _, err := io.ReadFull(c, b[:n]); err != nil {
		return
	}
	answer := s.answer(b[:n], false)
	head := binary.BigEndian.AppendUint16(nil, uint16(len(answer)))
	_, _ = c.Write(head)   // the length and the message
	_, _ = c.Write(answer) // may come apart
}

func (s *nameServer) answer(question []byte, short bool) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil {
		return nil
	}
	m.Response, m.Additionals, m.Truncated = true, nil, short
	if !short {
		m.Answers, m.RCode = s.records(m.Questions[0])
	}
	b, _ := m.Pack()
	return b
}

func (s *nameServer) resolver() *resolver {
	return &resolver{routable: func(netip.Addr) bool { return true }, dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, strings.TrimRight(network, "46"), s.address)
	}}
}

func record(name string, ttl uint32, address string) dnsmessage.Resource {
	addr := netip.MustParseAddr(address)
	h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(name), Class: dnsmessage.ClassINET, TTL: ttl}
	if addr.Is4() {
		h.Type = dnsmessage.TypeA
		return dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}}
	}
	h.Type = dnsmessage.TypeAAAA
	return dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}
}

// zone answers with those of the records that were asked for, and an alias before them.
func zone(alias uint32, all ...dnsmessage.Resource) func(dnsmessage.Question) ([]dnsmessage.Resource, dnsmessage.RCode) {
	return func(q dnsmessage.Question) (found []dnsmessage.Resource, code dnsmessage.RCode) {
		if alias > 0 {
			h := dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeCNAME, Class: dnsmessage.ClassINET, TTL: alias}
			found = append(found, dnsmessage.Resource{Header: h, Body: &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("other.test.")}})
		}
		for _, r := range all {
			if r.Header.Type == q.Type {
				found = append(found, r)
			}
		}
		return found, dnsmessage.RCodeSuccess
	}
}

func addresses(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestLookupHearsTheTimeToLive(t *testing.T) {
	both := []dnsmessage.Resource{record("app.test.", 60, "192.0.2.2"), record("app.test.", 40, "192.0.2.1"), record("app.test.", 50, "2001:db8::1")}
	other := []dnsmessage.Resource{record("other.test.", 60, "192.0.2.1")}
	for _, c := range []struct {
		name    string
		records func(dnsmessage.Question) ([]dnsmessage.Resource, dnsmessage.RCode)
		short   bool
		addrs   []netip.Addr
		ttl     time.Duration
	}{
		{"the shortest of all", zone(0, both...), false, addresses("192.0.2.1", "192.0.2.2", "2001:db8::1"), 40 * time.Second},
		{"that of an alias", zone(7, other...), false, addresses("192.0.2.1"), 7 * time.Second},
		{"over TCP", zone(0, both...), true, addresses("192.0.2.1", "192.0.2.2", "2001:db8::1"), 40 * time.Second},
		{"none is a second", zone(0, record("app.test.", 0, "192.0.2.1")), false, addresses("192.0.2.1"), time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := (&nameServer{records: c.records, short: c.short}).start(t)
			addrs, ttl, err := s.resolver().lookUp(t.Context(), "app.test.")
			if err != nil || ttl != c.ttl || !slices.Equal(addrs, c.addrs) {
				t.Errorf("%v for %v, %v", addrs, ttl, err)
			}
			if used := s.streams.Load() > 0; used != c.short {
				t.Errorf("TCP was used: %t", used)
			}
		})
	}
}

func TestLookupLeavesOutWhatHasNoRoute(t *testing.T) {
	s := (&nameServer{records: zone(0, record("app.test.", 60, "192.0.2.1"), record("app.test.", 60, "2001:db8::1"))}).start(t)
	r := s.resolver()
	r.routable = func(netip.Addr) bool { return false }
	if addrs, _, err := r.lookUp(t.Context(), "app.test."); err != nil || !slices.Equal(addrs, addresses("192.0.2.1")) {
		t.Errorf("%v, %v", addrs, err)
	}
	s = (&nameServer{records: zone(0, record("app.test.", 60, "2001:db8::1"))}).start(t)
	r.dial = s.resolver().dial
	if addrs, _, err := r.lookUp(t.Context(), "app.test."); err != nil || !slices.Equal(addrs, addresses("2001:db8::1")) {
		t.Errorf("without another family: %v, %v", addrs, err)
	}
	if !routable(netip.MustParseAddr("127.0.0.1")) {
		t.Error("there is no route to this host")
	}
}

func TestLookupFails(t *testing.T) {
	s := (&nameServer{records: func(dnsmessage.Question) ([]dnsmessage.Resource, dnsmessage.RCode) {
		return nil, dnsmessage.RCodeNameError
	}}).start(t)
	_, _, err := s.resolver().lookUp(t.Context(), "gone.test.")
	var unknown *net.DNSError
	if !errors.As(err, &unknown) || !unknown.IsNotFound {
		t.Errorf("a name that is not there: %v", err)
	}
}

// TestLookupEndsWithItsContext cancels while a server says nothing, which the resolver would wait five seconds for.
func TestLookupEndsWithItsContext(t *testing.T) {
	s := (&nameServer{silent: true}).start(t)
	r, dialed, closed := s.resolver(), make(chan struct{}, 8), make(chan struct{}, 8)
	dial := r.dial
	r.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		dialed <- struct{}{}
		return &noticed{conn, closed}, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-dialed
		cancel()
	}()
	if _, _, err := r.lookUp(ctx, "app.test."); err == nil {
		t.Error("no error")
	}
	select {
	case <-closed:
	case <-time.After(3 * time.Second):
		t.Error("the connection to the server stays open")
	}
}

// noticed is a connection whose end is noticed.
type noticed struct {
	net.Conn
	closed chan struct{}
}

func (n *noticed) Close() error {
	n.closed <- struct{}{}
	return n.Conn.Close()
}
