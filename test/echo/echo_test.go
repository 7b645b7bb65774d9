package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
)

func serveEcho(t *testing.T, s settings) (*echo, *httptest.Server) {
	t.Helper()
	e := &echo{settings: s}
	server := httptest.NewTLSServer(e)
	t.Cleanup(server.Close)
	return e, server
}

func fetch(t *testing.T, server *httptest.Server, r *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func request(t *testing.T, method, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAnswer(t *testing.T) {
	_, server := serveEcho(t, settings{namespace: "n", pod: "p", ingress: "i", service: "s"})
	r := request(t, "POST", server.URL+"//a/../b%2F?c=d&c", "12345")
	r.Host = "example.org"
	r.Header = http.Header{"X-A": {"1", "2"}, "X-Echo-Set-Header": {"X-Set: yes"}, "User-Agent": {"test"}, "Accept-Encoding": {"x"}}
	response, body := fetch(t, server, r)
	var got answer
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.TLS == nil || got.TLS.Version != "TLSv1.3" || got.TLS.CipherSuite == "" {
		t.Errorf("tls %+v", got.TLS)
	}
	got.TLS = nil
	want := answer{
		Path: "//a/../b%2F?c=d&c", Host: "example.org", Method: "POST", Proto: "HTTP/1.1", Namespace: "n", Pod: "p", Ingress: "i", Service: "s", Received: 5,
		Headers: http.Header{"X-A": {"1", "2"}, "X-Echo-Set-Header": {"X-Set: yes"}, "User-Agent": {"test"}, "Accept-Encoding": {"x"}, "Content-Length": {"5"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if response.Header.Get("X-Set") != "yes" || response.Header.Get("Content-Type") != "application/json" || response.StatusCode != 200 {
		t.Errorf("%d %v", response.StatusCode, response.Header)
	}
}

func TestPaths(t *testing.T) {
	e, server := serveEcho(t, settings{})
	for path, want := range map[string]int{"/health": 200, "/status/418": 418, "/status/x": 400, "/status/1": 400, "/ws": 400, "/healthy": 200} {
		if response, _ := fetch(t, server, request(t, "GET", server.URL+path, "")); response.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, response.StatusCode, want)
		}
	}
	e.leaving.Store(true)
	for path, want := range map[string]int{"/health": 503, "/x": 200} {
		if response, _ := fetch(t, server, request(t, "GET", server.URL+path, "")); response.StatusCode != want {
			t.Errorf("leaving: %s: %d, want %d", path, response.StatusCode, want)
		}
	}
	if _, body := fetch(t, server, request(t, "GET", server.URL+"/slow?bytes=2500&chunk=1000&every=1ms", "")); len(body) != 2500 {
		t.Errorf("slow: %d bytes", len(body))
	}
	begin := time.Now()
	fetch(t, server, request(t, "GET", server.URL+"/?delay=50ms", ""))
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("delayed by %s only", took)
	}
}

func TestWebSocket(t *testing.T) {
	_, server := serveEcho(t, settings{})
	dialer := websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	conn, response, err := dialer.DialContext(t.Context(), strings.Replace(server.URL, "https:", "wss:", 1)+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	defer conn.Close()
	for _, message := range []string{"", "hello", strings.Repeat("x", 100_000)} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if kind, got, err := conn.ReadMessage(); err != nil || kind != websocket.TextMessage || string(got) != message {
			t.Fatalf("%d bytes came back as %d: %v", len(message), len(got), err)
		}
	}
}

func TestSettings(t *testing.T) {
	env := map[string]string{"HTTP_PORT": "1", "EXIT_AFTER": "2s", "DIE": "true", "POD_NAME": "a"}
	got, err := parse([]string{"--pod-name", "b"}, func(name string) string { return env[name] })
	want := settings{httpPort: "1", httpsPort: "8443", exitAfter: 2 * time.Second, die: true, pod: "b"}
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	env["EXIT_AFTER"] = "soon"
	if _, err := parse(nil, func(name string) string { return env[name] }); err == nil || !strings.Contains(err.Error(), "EXIT_AFTER") {
		t.Errorf("a wrong duration: %v", err)
	}
}
