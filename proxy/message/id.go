package message

// ID is a small number for a field name that the data plane itself looks at; all other names are Other.
type ID uint8

// The known field names. The first group never stands in a Header.
const (
	Other ID = iota
	Host
	Connection
	ContentLength
	TransferEncoding
	Upgrade
	Expect
	Trailer
	TE
	KeepAlive
	ProxyConnection
	ProxyAuthenticate
	ProxyAuthorization
	HTTP2Settings

	XForwardedFor
	XForwardedHost
	XForwardedProto
	XForwardedPort
	XRequestID
	XRealIP
	Date
	Server
	Accept
	AcceptEncoding
	ContentType
	ContentEncoding
	Cookie
	Authorization
	UserAgent
	Referer
	Location
	WWWAuthenticate
	Forwarded

	ids // their number
)

var names = [ids]string{
	Host: "Host", Connection: "Connection", ContentLength: "Content-Length", TransferEncoding: "Transfer-Encoding",
	Upgrade: "Upgrade", Expect: "Expect", Trailer: "Trailer", TE: "TE", KeepAlive: "Keep-Alive",
	ProxyConnection: "Proxy-Connection", ProxyAuthenticate: "Proxy-Authenticate", ProxyAuthorization: "Proxy-Authorization",
	HTTP2Settings: "HTTP2-Settings",
	XForwardedFor: "X-Forwarded-For", XForwardedHost: "X-Forwarded-Host", XForwardedProto: "X-Forwarded-Proto",
	XForwardedPort: "X-Forwarded-Port", XRequestID: "X-Request-Id", XRealIP: "X-Real-IP", Date: "Date", Server: "Server",
	Accept: "Accept", AcceptEncoding: "Accept-Encoding", ContentType: "Content-Type", ContentEncoding: "Content-Encoding",
	Cookie: "Cookie", Authorization: "Authorization", UserAgent: "User-Agent", Referer: "Referer", Location: "Location",
	WWWAuthenticate: "WWW-Authenticate", Forwarded: "Forwarded",
}

// Name is the usual spelling of a known name, "" for Other.
func (id ID) Name() string { return names[id] }

// slots is an open hash table of the known names; slotOf is perfect enough that a probe rarely goes on.
var slots = func() (table [256]ID) {
	for id := Other + 1; id < ids; id++ {
		slot := slotOf(names[id])
		for table[slot] != Other {
			slot++
		}
		table[slot] = id
	}
	return table
}()

func slotOf(name string) uint8 {
	first, last := name[0]|0x20, name[len(name)-1]|0x20
	return uint8(len(name))*7 + first*3 + last*11
}

// Lookup returns the ID of a name in any case, or Other.
func Lookup(name string) ID {
	if name == "" {
		return Other
	}
	for slot := slotOf(name); ; slot++ {
		id := slots[slot]
		if id == Other || EqualFold(names[id], name) {
			return id
		}
	}
}

// EqualFold compares two field names or tokens, ASCII letters in any case.
func EqualFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && (a[i]|0x20 != b[i]|0x20 || a[i]|0x20 < 'a' || a[i]|0x20 > 'z') {
			return false
		}
	}
	return true
}
