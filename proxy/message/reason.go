package message

// Reason says why a request got its answer. The names stand in the access log, in metrics and in docs/responses.md.
type Reason uint8

// The reasons. OK means that the answer is the origin's own.
const (
	OK Reason = iota
	RouteNotFound
	HostNotFound
	MethodNotAllowed
	RouteRedirect
	IPDenied
	ServiceMissing
	PortMissing
	BackendUnsupported
	PipelineMissing
	NoEndpoints
	NameUnresolved
	AddressRefused
	ConnectFailed
	ConnectTimeout
	UpstreamReset
	UpstreamMalformed
	UpstreamFraming
	UpstreamTimeout
	UpstreamTruncated
	UpstreamTLS
	FailureCode
	FilterBroken
	NoResponse
	Panicked
	MalformedRequest
	AmbiguousFraming
	BadChunk
	BadHost
	BadTarget
	BadVersion
	UnknownCoding
	HeadTimeout
	BodyTimeout
	BodyTooLarge
	HeadTooLarge
	TargetTooLong
	MethodRefused
	ExpectationFailed
	Misdirected
	ClientCertificate
	ClientGone
	Overloaded
	Draining

	reasons // their number
)

var table = [reasons]struct {
	name   string
	status int
}{
	OK:                 {"ok", 200},
	RouteNotFound:      {"route_not_found", 404},
	HostNotFound:       {"host_not_found", 404},
	MethodNotAllowed:   {"method_not_allowed", 405},
	RouteRedirect:      {"redirect", 308},
	IPDenied:           {"ip_denied", 403},
	ServiceMissing:     {"service_missing", 503},
	PortMissing:        {"port_missing", 503},
	BackendUnsupported: {"backend_unsupported", 503},
	PipelineMissing:    {"pipeline_missing", 503},
	NoEndpoints:        {"no_endpoints", 503},
	NameUnresolved:     {"name_unresolved", 503},
	AddressRefused:     {"address_refused", 503},
	ConnectFailed:      {"connect_failed", 502},
	ConnectTimeout:     {"connect_timeout", 504},
	UpstreamReset:      {"upstream_reset", 502},
	UpstreamMalformed:  {"upstream_malformed", 502},
	UpstreamFraming:    {"upstream_ambiguous_framing", 502},
	UpstreamTimeout:    {"upstream_timeout", 504},
	UpstreamTruncated:  {"upstream_truncated", 502},
	UpstreamTLS:        {"upstream_tls", 502},
	FailureCode:        {"failure_code", 502},
	FilterBroken:       {"filter_broken", 500},
	NoResponse:         {"no_response", 500},
	Panicked:           {"panic", 500},
	MalformedRequest:   {"malformed_request", 400},
	AmbiguousFraming:   {"ambiguous_framing", 400},
	BadChunk:           {"bad_chunk", 400},
	BadHost:            {"bad_host", 400},
	BadTarget:          {"bad_target", 400},
	BadVersion:         {"bad_version", 400},
	UnknownCoding:      {"unknown_transfer_coding", 501},
	HeadTimeout:        {"head_timeout", 408},
	BodyTimeout:        {"body_timeout", 408},
	BodyTooLarge:       {"body_too_large", 413},
	HeadTooLarge:       {"head_too_large", 431},
	TargetTooLong:      {"target_too_long", 414},
	MethodRefused:      {"method_refused", 405},
	ExpectationFailed:  {"expectation_failed", 417},
	Misdirected:        {"misdirected", 421},
	ClientCertificate:  {"client_certificate", 421},
	ClientGone:         {"client_gone", 499},
	Overloaded:         {"overloaded", 503},
	Draining:           {"draining", 503},
}

func (r Reason) String() string { return table[r].name }

// Status is the response status that goes with the reason.
func (r Reason) Status() int { return table[r].status }

// Reasons returns every reason, in order.
func Reasons() []Reason {
	all := make([]Reason, reasons)
	for i := range all {
		all[i] = Reason(i)
	}
	return all
}

// ReasonNamed returns the reason of that name; FilterBroken for a name that is none.
func ReasonNamed(name string) Reason {
	for r := range reasons {
		if table[r].name == name {
			return r
		}
	}
	return FilterBroken
}
