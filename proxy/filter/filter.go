package filter

import (
	"log/slog"
	"slices"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// Result is what a filter made of an exchange: an index into the results of its Kind, Next for success, or Pending.
type Result uint8

// Next is the result of success: the chain goes on. Results from 1 are the Kind's Results in order. Pending means that the
// forward step waits for its upstream: the chain stops and is resumed by Chain.Resume.
const (
	Next    Result = 0
	Pending Result = 255
)

// Filter is one step of a chain. Handle may be called from many goroutines at once.
type Filter interface {
	Handle(*Exchange) Result
}

// Closer is a Filter that holds something; Close is called when no snapshot and no exchange uses it any more.
type Closer interface {
	Filter
	Close()
}

// Need says what a kind wants of the request body.
type Need uint8

// None leaves the body alone, Stream reads or replaces it as it passes, Buffer wants all of it in memory.
const (
	None Need = iota
	Stream
	Buffer
)

// Foreteller is a Filter that can say what it would make of a request, for explanations: its result and, with an answer of its own, the
// reason, the status and a remark to stand behind them; status 0 is no answer.
type Foreteller interface {
	Foretell(r *message.Request) (result Result, reason message.Reason, status int, remark string)
}

// Kind describes a kind of filter. Decode and New are separate so that a spec can be checked without a running engine.
type Kind struct {
	Name    string
	Doc     string   // one sentence
	Results []string // besides success
	Blocks  bool     // Handle may wait for something other than the upstream
	Body    Need
	// Decode turns the fields of a spec (JSON) into a value of the kind's own, strictly. Its error names the field.
	Decode func(raw []byte) (any, error)
	// New builds a filter from what Decode returned.
	New func(spec any, env Env) (Filter, error)
}

// Env is what the engine gives a filter.
type Env struct {
	Name     string // the filter's name, for logs
	Log      *slog.Logger
	Now      func() time.Time
	Upstream func(name string) Upstream // nil result: no such upstream
}

// Upstream is what the forward step needs of a pool: it owns choosing an endpoint, connecting and the connection's fate.
type Upstream interface {
	// Forward sends x.Request to one endpoint after another as far as that is safe, and sets x.Response or, on failure, a
	// reply with its reason. It fills x.Forward.
	Forward(x *Exchange, options ForwardOptions) error
}

// ForwardOptions are the settings of one forward step.
type ForwardOptions struct {
	Timeout      time.Duration // until the response head; 0 means the pool's own
	KeepHost     bool          // send the client's Host, but to an endpoint known by a name its own
	Host         string        // when KeepHost is false: the Host to send; "" the endpoint's
	FailureCodes []int         // statuses that count against an endpoint; nil means all from 500
}

// Failure reports whether a response with that status is a failure of the endpoint.
func (o *ForwardOptions) Failure(status int) bool {
	if o.FailureCodes == nil {
		return status >= 500
	}
	return slices.Contains(o.FailureCodes, status)
}

// Reject is what a filter does with a request that it must not let pass: it replies and says which of its results that is.
func Reject(x *Exchange, reason message.Reason, result Result) Result {
	x.Reply(reason)
	return result
}
