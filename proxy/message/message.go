package message

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// Version is the protocol version that a message came in by.
type Version uint8

// The versions that Sluice speaks.
const (
	HTTP10 Version = iota + 1
	HTTP11
	HTTP2
	HTTP3
)

func (v Version) String() string {
	return [...]string{"HTTP/?", "HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/3.0"}[v]
}

// Unknown is the Length of a body that is framed by chunks, frames or the end of the connection, and of a response that
// declares none.
const Unknown int64 = -1

// Body is the content of a message, pulled by whoever sends it on: not reading is the back-pressure. A Body belongs to one
// goroutine.
type Body interface {
	// Read reads like io.Reader. io.EOF means that the body is complete; any other error that it is not.
	io.Reader
	// Trailer returns the trailer fields, valid once Read has answered io.EOF; nil when there are none.
	Trailer() *Header
	// Close gives the body up, read or not.
	Close() error
}

// Request is one request. It and its Header belong to the exchange and are reused after it; its strings stay valid.
type Request struct {
	Method    string
	Scheme    string // "http" or "https"
	Authority string // host and port as sent; "" for an HTTP/1.0 request without Host
	Host      string // canonical name of Authority (canon.Host): lower case, no port, no final dot
	Path      string // canonical (canon.Path); "*" for OPTIONS *
	RawQuery  string // byte for byte, without the "?"
	HasQuery  bool   // there was a "?"
	Target    string // the request target as it came, for logs only
	Version   Version
	Header    Header
	Length    int64  // bytes of Body; 0 when there is none; Unknown
	Body      Body   // nil when there is none
	Upgrade   string // "websocket" when the client asks for it, else ""
	Expect    bool   // the client waits for 100 Continue; the first Body.Read sends it
	Trailers  bool   // the client accepts trailers (TE: trailers)
	Trailer   string // the names of the trailer fields that the client announced, as sent; "" none
}

// Response is one final response.
type Response struct {
	Status  int
	Version Version
	Header  Header
	Length  int64  // bytes of Body; Unknown when not declared. For HEAD, 204 and 304 what the origin declared
	Body    Body   // nil when there is none
	Upgrade string // the protocol of a 101
	Tunnel  Tunnel // of a 101: the origin's side of it
	Trailer string // the names of the trailer fields that the origin announced, as sent; "" none
}

// Prober is a Body whose framing can be checked before it is read.
type Prober interface {
	// Probe waits, for at most the given time, until the start of the body's framing has arrived, and returns a *BodyError when
	// it is malformed. It is nil when nothing is known yet, and at once while the client waits for 100 Continue.
	Probe(wait time.Duration) error
}

// Counted is a Body of a request that knows how much of it was read.
type Counted interface{ Passed() int64 }

// Ready is a Body that knows what it has. Whoever sends a body on writes a head together with what is ready, and does not
// let it wait for what is not; a Body without the method counts as never ready.
type Ready interface {
	// Ready returns how many bytes Read gives without waiting, and whether the body ends with them.
	Ready() (n int, end bool)
}

// Conn describes the connection that a request came by. It is read-only and shared by the requests of the connection.
type Conn struct {
	Remote netip.AddrPort // the peer, IPv4-mapped addresses unmapped
	Local  netip.AddrPort
	Peer   string // Remote's address as text, made once
	Port   string // Local's port as text, made once
	TLS    *TLS   // nil on plain connections
	Traits any    // what the engine wants to find again on each request
}

// TLS describes the handshake of a connection.
type TLS struct {
	ServerName   string // canonical SNI, "" when the client sent none
	EntryID      string // certs.Entry that served the handshake
	Named        bool   // ServerName selected the entry; false when the default certificate stood in
	Version      uint16
	CipherSuite  uint16
	ALPN         string
	Resumed      bool
	Certificates []*x509.Certificate // the client's, verified chain first; empty when none was asked for
}

// Stream is one request and the means to answer it. It belongs to the goroutine that serves it.
type Stream interface {
	Request() *Request
	Conn() *Conn
	// Inform sends an interim response (1xx but 101).
	Inform(status int, header *Header) error
	// Respond sends the final response, pulls its body to the end and closes it. It may be called once. The error is nil, or
	// wraps ErrClientGone, or is a *BodyError when the response body broke off: the client was then cut off so that it cannot
	// take what it has for the whole.
	Respond(*Response) (sent int64, err error)
	// Upgrade answers 101 with r's header and hands the connection over; the stream is the caller's until it closes the tunnel.
	Upgrade(r *Response) (Tunnel, error)
	// Gone reports, without blocking, whether the client is known to have gone away.
	Gone() bool
	// CloseAfter asks that the connection ends, gently, after this exchange.
	CloseAfter()
}

// Tunnel is a connection after an upgrade. Read yields first what had been read ahead.
type Tunnel interface {
	net.Conn
	CloseWrite() error
}

// Handler serves one request. It must have answered the stream when it returns; a server answers 500 otherwise.
type Handler func(Stream)

// ErrClientGone says that the client closed, reset or stopped reading.
var ErrClientGone = errors.New("client went away")

// BodyError says which side broke a body off.
type BodyError struct {
	Reason Reason // why, as the access log says it
	Err    error
}

func (e *BodyError) Error() string { return e.Reason.String() + ": " + e.Err.Error() }

func (e *BodyError) Unwrap() error { return e.Err }
