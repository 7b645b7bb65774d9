package admin

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// readOnly refuses whatever could change something, and keeps browsers from guessing and keeping.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the admin address only answers GET", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guard lets only programs on this machine in, and no page that a browser on it shows: neither one of another origin, nor one
// whose name was made to resolve to this machine.
func guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := refusal(r); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refusal(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return "only health and metrics are shown to other machines; ask from this one, such as through kubectl port-forward"
	}
	if !loopbackHost(r.Host) {
		return "the Host of the request must be localhost or a loopback address"
	}
	for _, origin := range r.Header.Values("Origin") {
		if u, err := url.Parse(origin); err != nil || u.Scheme != "http" || u.Host != r.Host {
			return "pages of other origins are refused"
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return ""
	}
	return "pages of other sites are refused"
}

// loopbackHost reports whether a Host header names this machine in a way that no name server can answer for.
func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}
