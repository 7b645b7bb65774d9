package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// backend is one of the demo's three servers.
type backend struct {
	name string
	port int // in the examples; another one when it is taken
	chat bool
}

func backends() []backend {
	return []backend{{"red", 9001, false}, {"green", 9002, false}, {"blue", 9003, true}}
}

// startBackends starts all and returns their ports, by name.
func startBackends(ctx context.Context) (map[string]int, error) {
	ports := map[string]int{}
	for _, b := range backends() {
		listener, err := net.Listen("tcp", local(b.port))
		if err != nil {
			if listener, err = net.Listen("tcp", local(0)); err != nil {
				return nil, fmt.Errorf("start backend %s: %w", b.name, err)
			}
		}
		ports[b.name] = listener.Addr().(*net.TCPAddr).Port
		server := &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
		go server.Serve(listener)
		context.AfterFunc(ctx, func() { server.Close() })
	}
	return ports, nil
}

// ServeHTTP shows what has come in.
func (b backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.chat && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		serveWebSocket(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "This is %s.\n%s %s %s\nHost: %s\n", b.name, r.Method, r.RequestURI, r.Proto, r.Host)
	names := make([]string, 0, len(r.Header))
	for name := range r.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "%s: %s\n", name, strings.Join(r.Header[name], ", "))
	}
}
