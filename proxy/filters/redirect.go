package filters

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

// redirectSpec is the spec of kind HTTPSRedirect.
type redirectSpec struct {
	Port       int `json:"port"`       // that clients reach the TLS server by; default 443
	StatusCode int `json:"statusCode"` // default 308
}

var redirectStatuses = []int{301, 302, 303, 307, 308}

type redirect struct {
	port   string // ":8443", or "" for 443
	status int
}

const redirected filter.Result = 1

func redirectKind() filter.Kind {
	return filter.Kind{
		Name:    "HTTPSRedirect",
		Doc:     "Sends clients that came without TLS to the same place with it.",
		Results: []string{"redirected"},
		Decode: func(raw []byte) (any, error) {
			spec := redirectSpec{Port: 443, StatusCode: 308}
			if err := decode(raw, &spec); err != nil {
				return nil, err
			}
			if spec.Port < 1 || spec.Port > 65535 {
				return nil, &FieldError{"port", fmt.Sprintf("%d is no port", spec.Port), "write the port that clients use for https, 1 to 65535"}
			}
			if !slices.Contains(redirectStatuses, spec.StatusCode) {
				return nil, &FieldError{"statusCode", fmt.Sprintf("%d is no redirect", spec.StatusCode), "use 301, 302, 303, 307 or 308"}
			}
			return &spec, nil
		},
		New: func(spec any, _ filter.Env) (filter.Filter, error) {
			s := spec.(*redirectSpec)
			r := &redirect{status: s.StatusCode}
			if s.Port != 443 {
				r.port = ":" + strconv.Itoa(s.Port)
			}
			return r, nil
		},
	}
}

// Handle builds the location from the host that was routed by, never from a field that a client may have made up.
func (r *redirect) Handle(x *filter.Exchange) filter.Result {
	if x.Request.Scheme == "https" {
		return filter.Next
	}
	if x.Request.Host == "" {
		return filter.Reject(x, message.BadHost, redirected)
	}
	answer := x.ReplyStatus(message.RouteRedirect, r.status)
	answer.Header.Add("Location", r.location(x.Request))
	return redirected
}

// Foretell is filter.Foreteller.
func (r *redirect) Foretell(q *message.Request) (filter.Result, message.Reason, int, string) {
	if q.Scheme == "https" {
		return filter.Next, message.OK, 0, ""
	}
	return redirected, message.RouteRedirect, r.status, "to " + r.location(q)
}

func (r *redirect) location(q *message.Request) string {
	path := q.Path
	if !strings.HasPrefix(path, "/") { // OPTIONS *
		path = "/"
	}
	query := ""
	if q.HasQuery {
		query = "?" + q.RawQuery
	}
	return "https://" + bracketed(q.Host) + r.port + path + query
}

// bracketed is a canonical host as it stands in a URL (RFC 3986 §3.2.2).
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}
