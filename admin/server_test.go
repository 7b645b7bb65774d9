package admin

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
)

// TestServerWaitsForItsAddress starts it on an address that is taken, and ends it.
func TestServerWaitsForItsAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	s := &Server{Address: address, Handler: testHandler(Readiness{}), Log: slog.New(slog.DiscardHandler), Retry: 10 * time.Millisecond}
	go func() { s.Run(ctx); close(done) }()
	taken.Close()
	client := &http.Client{Timeout: time.Second}
	testkit.Eventually(t, 10*time.Second, "healthz answers", func() bool {
		response, err := client.Get("http://" + address + "/healthz")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return string(body) == "ok\n"
	})
	client.CloseIdleConnections()
	cancel()
	<-done
	if response, err := client.Get("http://" + address + "/healthz"); err == nil {
		response.Body.Close()
		t.Error("it still answers")
	}
}
