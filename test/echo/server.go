package main

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// answer is what a request is answered with.
type answer struct {
	Path      string              `json:"path"`
	Host      string              `json:"host"`
	Method    string              `json:"method"`
	Proto     string              `json:"proto"`
	Headers   map[string][]string `json:"headers"`
	Namespace string              `json:"namespace"`
	Ingress   string              `json:"ingress"`
	Service   string              `json:"service"`
	Pod       string              `json:"pod"`
	Received  int64               `json:"received"` // bytes of body
	TLS       *tlsAnswer          `json:"tls,omitempty"`
}

type tlsAnswer struct {
	Version            string   `json:"version"`
	PeerCertificates   []string `json:"peerCertificates"` // PEM
	ServerName         string   `json:"serverName"`
	NegotiatedProtocol string   `json:"negotiatedProtocol"`
	CipherSuite        string   `json:"cipherSuite"`
}

// echo answers requests.
type echo struct {
	settings
	leaving atomic.Bool // after SIGTERM
}

// ServeHTTP answers a few paths in their way and all others, whatever they look like, with what it saw.
func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if delay, err := time.ParseDuration(r.URL.Query().Get("delay")); err == nil {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
			return
		}
	}
	switch status, isStatus := strings.CutPrefix(r.URL.Path, "/status/"); {
	case isStatus:
		e.status(w, r, status)
	case r.URL.Path == "/health":
		e.health(w)
	case r.URL.Path == "/slow":
		slow(w, r)
	case r.URL.Path == "/ws":
		socket(w, r)
	default:
		e.reply(w, r, http.StatusOK)
	}
}

func (e *echo) health(w http.ResponseWriter) {
	if e.leaving.Load() {
		http.Error(w, "leaving", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "OK")
}

func (e *echo) status(w http.ResponseWriter, r *http.Request, text string) {
	status, err := strconv.Atoi(text)
	if err != nil || status < 200 || status > 599 {
		status = http.StatusBadRequest
	}
	e.reply(w, r, status)
}

func (e *echo) reply(w http.ResponseWriter, r *http.Request, status int) {
	received, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return // the client is gone
	}
	fmt.Printf("Echoing back request made to %s to client (%s)\n", r.RequestURI, r.RemoteAddr)
	body, err := json.MarshalIndent(answer{
		r.RequestURI, r.Host, r.Method, r.Proto, r.Header, e.namespace, e.ingress, e.service, e.pod, received, describe(r.TLS),
	}, "", " ")
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		return
	}
	for _, set := range r.Header.Values("X-Echo-Set-Header") {
		name, value, _ := strings.Cut(set, ":")
		w.Header()[strings.TrimSpace(name)] = append(w.Header()[strings.TrimSpace(name)], strings.TrimSpace(value))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}

func describe(s *tls.ConnectionState) *tlsAnswer {
	if s == nil {
		return nil
	}
	a := &tlsAnswer{
		Version: strings.Replace(tls.VersionName(s.Version), "TLS ", "TLSv", 1), ServerName: s.ServerName,
		NegotiatedProtocol: s.NegotiatedProtocol, CipherSuite: tls.CipherSuiteName(s.CipherSuite),
	}
	for _, c := range s.PeerCertificates {
		a.PeerCertificates = append(a.PeerCertificates, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})))
	}
	return a
}

// slow writes bytes in chunks, one each so often, until they are out or the client is gone.
func slow(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(query.Get(name)); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	left, chunk := number("bytes", 10_000), number("chunk", 1000)
	every, err := time.ParseDuration(query.Get("every"))
	if err != nil {
		every = 100 * time.Millisecond
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(left))
	control := http.NewResponseController(w)
	for left > 0 {
		n := min(left, chunk)
		if _, err := w.Write(make([]byte, n)); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
		left -= n
		select {
		case <-r.Context().Done():
			return
		case <-time.After(every):
		}
	}
}

// socket sends back each WebSocket message.
func socket(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer func() { _ = conn.Close() }() // the client may be gone
	for {
		kind, message, err := conn.ReadMessage()
		if err != nil || conn.WriteMessage(kind, message) != nil {
			return
		}
	}
}
