package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// handshakes are made one after another.
type handshakes struct {
	t             *testing.T
	address, name string
	end           context.CancelFunc
	all           sync.WaitGroup

	mu     sync.Mutex
	serial string
	n      int
}

func (h *handshakes) start(ctx context.Context) {
	ctx, h.end = context.WithCancel(ctx)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(shared.Authority.PEM)
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: h.name, MinVersion: tls.VersionTLS12}}
	h.all.Go(func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			conn, err := dialer.DialContext(ctx, "tcp", h.address)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				h.t.Errorf("a handshake failed: %v", err)
				return
			}
			leaf := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
			conn.Close()
			h.mu.Lock()
			h.serial = leaf.SerialNumber.String()
			h.n++
			h.mu.Unlock()
			<-tick.C
		}
	})
}

// last is the serial number that was shown last.
func (h *handshakes) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.serial
}

func (h *handshakes) stop() {
	h.end()
	h.all.Wait()
	h.t.Logf("%d handshakes", h.n)
}

// serialOf is the serial number of the certificate in a Secret.
func serialOf(ctx context.Context, t *testing.T, ns, name string) string {
	t.Helper()
	secret, err := shared.Client().CoreV1().Secrets(ns).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data["tls.crt"])
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return leaf.SerialNumber.String()
}
