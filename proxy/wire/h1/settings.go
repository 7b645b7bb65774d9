package h1

import "time"

// Settings are the limits and timeouts of a Server. Timeouts take effect between one and 5/4 of their length; 0 means
// none.
type Settings struct {
	HeadBytes   int // of a request head
	Fields      int // in a head or a trailer section
	TargetBytes int // of a request target

	HeadTimeout  time.Duration // from the first byte of a head to its last
	IdleTimeout  time.Duration // between requests
	BodyTimeout  time.Duration // between two pieces of a request body
	WriteTimeout time.Duration // in which the client must take something
	PartTimeout  time.Duration // for which a closed connection is still read
	LastCall     time.Duration // for which a connection without a request still waits for one when the server drains

	DrainBytes int64 // of an unread request body that are read so that the connection can stay open
	KeepAlive  bool
}

// DefaultSettings are the settings of a server that is told nothing.
func DefaultSettings() *Settings {
	return &Settings{
		HeadBytes: 32 << 10, Fields: 100, TargetBytes: 16 << 10,
		HeadTimeout: 10 * time.Second, IdleTimeout: time.Minute, BodyTimeout: time.Minute, WriteTimeout: time.Minute,
		PartTimeout: time.Second, LastCall: time.Second,
		DrainBytes: 256 << 10, KeepAlive: true,
	}
}

// ClientSettings are the limits and timeouts of a Client. Timeouts take effect between one and 5/4 of their length; 0 means none.
type ClientSettings struct {
	HeadBytes int // of a response head
	Fields    int // in a head or a trailer section
	Interim   int // responses before the final one

	WriteTimeout time.Duration // in which the origin must take something
	BodyTimeout  time.Duration // between two pieces of a response body
	ContinueWait time.Duration // for 100 Continue, before the body is sent without it
}

// DefaultClientSettings are the settings of a client that is told nothing.
func DefaultClientSettings() *ClientSettings {
	return &ClientSettings{
		HeadBytes: 32 << 10, Fields: 256, Interim: 10,
		WriteTimeout: time.Minute, ContinueWait: time.Second,
	}
}
