package model

// RouterKind is how a server chooses among its rules.
type RouterKind string

// Ordered takes the first path that matches in file order, across rules. RadixTree prefers exact over regexp parameters over
// parameters over wildcards, whatever the order. Host chooses the most specific host first (exact, one-label wildcard, none) and
// keeps to it, and in a host takes the first path in order.
const (
	Ordered   RouterKind = "Ordered"
	RadixTree RouterKind = "RadixTree"
	HostFirst RouterKind = "Host"
)

// HTTPServer listens on one port and routes what comes in to pipelines.
type HTTPServer struct {
	Meta `json:",inline"`

	Address          string            `json:"address,omitempty"`
	Port             uint16            `json:"port"`
	HTTPS            bool              `json:"https,omitempty"`
	KeepAlive        *bool             `json:"keepAlive,omitempty"`        // default true
	KeepAliveTimeout Duration          `json:"keepAliveTimeout,omitempty"` // default 60s
	MaxConnections   uint32            `json:"maxConnections,omitempty"`   // default 10240
	XForwardedFor    bool              `json:"xForwardedFor,omitempty"`    // accepted: Sluice always sets it
	CacheSize        uint32            `json:"cacheSize,omitempty"`        // accepted: lookups need no cache
	ClientMaxBody    int64             `json:"clientMaxBodySize,omitempty"`
	CACertBase64     string            `json:"caCertBase64,omitempty"`
	CertBase64       string            `json:"certBase64,omitempty"`
	KeyBase64        string            `json:"keyBase64,omitempty"`
	Certs            map[string]string `json:"certs,omitempty"`
	Keys             map[string]string `json:"keys,omitempty"`
	RouterKind       RouterKind        `json:"routerKind,omitempty"` // default Ordered
	IPFilter         *IPFilter         `json:"ipFilter,omitempty"`
	Rules            []*Rule           `json:"rules,omitempty"`
	Fallback         string            `json:"fallback,omitempty"` // pipeline for what no rule matched

	RuleSet string `json:"-"` // Config.RuleSets, filled in by translate
	TLSSet  string `json:"-"` // Config.TLSSets, likewise
	Origin  Origin `json:"-"`
}

// Rule is the paths of some hosts. Without a host it holds for all.
type Rule struct {
	IPFilter   *IPFilter `json:"ipFilter,omitempty"`
	Host       string    `json:"host,omitempty"` // exact, or one * at the start or the end; kind Host: *. stands for one label
	HostRegexp string    `json:"hostRegexp,omitempty"`
	Hosts      []Host    `json:"hosts,omitempty"`
	Paths      []*Path   `json:"paths,omitempty"` // in order of precedence

	Origin Origin `json:"-"`
}

// Host is one host of a rule.
type Host struct {
	IsRegexp bool   `json:"isRegexp,omitempty"`
	Value    string `json:"value"`
}

// Path is one path of a rule and where it leads. At most one of Exact, Prefix, ElementPrefix and Regexp is set; none matches
// every path. With RouterKind RadixTree, Exact is a pattern: {name}, {name:regexp}, and a final *.
type Path struct {
	Exact         string    `json:"path,omitempty"`
	Prefix        string    `json:"pathPrefix,omitempty"`        // of the string, as in the seeds: /foo matches /foobar
	ElementPrefix string    `json:"pathElementPrefix,omitempty"` // of path elements: /foo matches /foo and /foo/bar, not /foobar
	Regexp        string    `json:"pathRegexp,omitempty"`        // RE2
	Methods       []string  `json:"methods,omitempty"`
	Headers       []Match   `json:"headers,omitempty"`
	MatchAllHdr   bool      `json:"matchAllHeader,omitempty"`
	Queries       []Match   `json:"queries,omitempty"`
	MatchAllQuery bool      `json:"matchAllQuery,omitempty"`
	IPFilter      *IPFilter `json:"ipFilter,omitempty"`

	Backend       string            `json:"backend,omitempty"`     // a Pipeline
	BackendPool   *Pool             `json:"backendPool,omitempty"` // instead of Backend; translate makes a Pipeline of it
	RewriteTarget string            `json:"rewriteTarget,omitempty"`
	SetHeaders    map[string]string `json:"setHeaders,omitempty"`        // on the request; "" deletes; nginx-like variables
	ClientMaxBody int64             `json:"clientMaxBodySize,omitempty"` // overrides the server's; -1 unlimited

	Origin Origin `json:"-"`
}

// Match is a condition on a header field or a query parameter: one of the values, or the regexp.
type Match struct {
	Key    string   `json:"key"`
	Values []string `json:"values,omitempty"`
	Regexp string   `json:"regexp,omitempty"`
}

// IPFilter lets addresses in. A non-empty AllowIPs admits only those; an address in both lists, or in neither, gets the
// default.
type IPFilter struct {
	BlockByDefault bool     `json:"blockByDefault,omitempty"`
	AllowIPs       []string `json:"allowIPs,omitempty"`
	BlockIPs       []string `json:"blockIPs,omitempty"`
}
