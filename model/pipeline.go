package model

// Pipeline is a flow of filters.
type Pipeline struct {
	Meta `json:",inline"`

	Flow    []FlowNode `json:"flow,omitempty"` // empty: the filters in order
	Filters []Filter   `json:"filters"`

	Origin Origin `json:"-"`
}

// FlowNode is one step of a flow.
type FlowNode struct {
	Filter string            `json:"filter"` // a name in Filters, or END
	Alias  string            `json:"alias,omitempty"`
	JumpIf map[string]string `json:"jumpIf,omitempty"` // result → alias or filter further on, or END; "" is success
}

// End is the flow target that ends a pipeline.
const End = "END"

// Filter is one filter of a pipeline. A Proxy is typed, since translate lifts its pools into Upstreams; every other kind
// passes through as the JSON of its fields and is decoded by its kind.
type Filter struct {
	Name  string
	Kind  string
	Proxy *Proxy // Kind Proxy
	Raw   []byte // other kinds: JSON object without name and kind
}

// KindProxy is the kind of filter that forwards requests.
const KindProxy = "Proxy"

// Proxy forwards requests to a pool of servers.
type Proxy struct {
	Pools []*Pool `json:"pools"` // exactly one without Filter: the main pool
}

// Pool is where a Proxy forwards to: a list of servers, or a Service.
type Pool struct {
	Servers         []Server     `json:"servers,omitempty"`
	Service         string       `json:"service,omitempty"` // an Upstream: namespace/name:port for a Service
	SetUpstreamHost bool         `json:"setUpstreamHost,omitempty"`
	Timeout         Duration     `json:"timeout,omitempty"` // until the response head; default 60s
	LoadBalance     *LoadBalance `json:"loadBalance,omitempty"`
	FailureCodes    []int        `json:"failureCodes,omitempty"` // default all 5xx; they count against an endpoint and give the result failureCode
}

// Server is one server of a pool.
type Server struct {
	URL      string   `json:"url"`
	Tags     []string `json:"tags,omitempty"`
	Weight   int      `json:"weight,omitempty"` // 0 to 100; all of a pool's servers, or none
	KeepHost bool     `json:"keepHost,omitempty"`
}

// LoadBalance chooses the endpoint.
type LoadBalance struct {
	Policy        string `json:"policy,omitempty"`        // one of balance's names; default roundRobin
	HeaderHashKey string `json:"headerHashKey,omitempty"` // for headerHash
}

// Upstream is a configured group of endpoints. Endpoints stand nowhere else, so that a change of them touches one pool.
type Upstream struct {
	Name        string
	Origin      Origin
	LoadBalance LoadBalance
	Endpoints   []Endpoint // ordered by address, no address twice
	Guard       *Guard     // of the addresses that host names among the endpoints have; nil: the operator named them
	Reason      string     // with no endpoint: the message.Reason name why, such as service_missing; "" is no_endpoints
	Detail      string     // with Reason: object and field to look at
}

// Endpoint is one address of an upstream, or one host name, which stands for all addresses that it has.
type Endpoint struct {
	Address     string // host:port
	Host        string // the Host to send when the client's is not kept; "" is Address
	Weight      int    // 0 counts as 1 unless some endpoint of the upstream has a weight
	KeepHost    bool   // send the client's Host whatever the pool says
	Terminating bool   // serving, but on its way out: used only while no other is left
}
