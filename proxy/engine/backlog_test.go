package engine

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
)

// held is a listener that takes nothing until it is let go.
type held struct {
	*net.TCPListener
	let chan struct{}
}

func (h *held) Accept() (net.Conn, error) {
	<-h.let
	return h.TCPListener.Accept()
}

// TestDrainTakesWhatHasConnected: a machine that is busy accepts late, and what the kernel has accepted for it must not be reset.
func TestDrainTakesWhatHasConnected(t *testing.T) {
	b := newBackend(t, "v1")
	let := make(chan struct{})
	e := newTestEngine(t, Settings{Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
		l, err := new(net.ListenConfig).Listen(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &held{l.(*net.TCPListener), let}, nil
	}})
	e.Apply(withUpstream(one(model.KindProxy), b.address))
	var waiting []net.Conn
	for range 5 {
		conn := dial(t, e)
		fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		waiting = append(waiting, conn)
	}
	drained := make(chan error, 1)
	go func() { drained <- e.Drain(context.Background()) }()
	testkit.Eventually(t, 2*time.Second, "the drain", e.Draining)
	close(let)
	for _, conn := range waiting {
		if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || r.StatusCode != 200 {
			t.Errorf("%v %v", r, err)
		}
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
}
