package chaos

import (
	"net/http"
	"strings"
)

// request is what rules ask about a request.
type request struct {
	verb, resource, namespace, name string
}

// parse reads an API request: /api/v1 or /apis/GROUP/VERSION, then [namespaces/NAME/]RESOURCE[/NAME[/SUBRESOURCE]].
func parse(r *http.Request) request {
	q := request{verb: strings.ToLower(r.Method)}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	default:
		return q // discovery, health
	}
	if parts[0] == "namespaces" && len(parts) > 2 && !isSubresource(parts[2]) {
		q.namespace, parts = parts[1], parts[2:]
	}
	q.resource = parts[0]
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.resource += "/" + parts[2]
	}
	q.verb = verb(r, q.name)
	return q
}

// isSubresource tells /namespaces/x/status, which is of the namespace, from what is in it.
func isSubresource(s string) bool { return s == "status" || s == "finalize" }

func verb(r *http.Request, name string) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if w := r.URL.Query().Get("watch"); w == "true" || w == "1" {
			return "watch"
		}
		if name == "" {
			return "list"
		}
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		if name == "" {
			return "deletecollection"
		}
		return "delete"
	}
	return strings.ToLower(r.Method)
}
