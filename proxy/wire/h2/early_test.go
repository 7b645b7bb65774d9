package h2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"sluice.dev/sluice/proxy/message"
)

// TestABodyThatIsReadWhenTheExchangeIsOver: an origin that answers early leaves a goroutine behind that reads the rest for it.
func TestABodyThatIsReadWhenTheExchangeIsOver(t *testing.T) {
	bodies, waiting := make(chan message.Body, 1), make(chan error, 1)
	w := serve(t, func(x message.Stream) {
		body := x.Request().Body
		if _, err := io.ReadFull(body, make([]byte, 4)); err != nil {
			t.Error(err)
		}
		started := make(chan struct{})
		go func() {
			close(started)
			_, err := body.Read(make([]byte, 4))
			waiting <- err
		}()
		<-started
		text(x, 413, "too much")
		bodies <- body
	})
	for range 20 {
		sent, send := io.Pipe()
		go func() { _, _ = io.WriteString(send, "some") }() // the rest never comes
		request, _ := http.NewRequest("POST", "https://a.test/", sent)
		response, err := w.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := io.ReadAll(response.Body); response.StatusCode != 413 || string(got) != "too much" {
			t.Errorf("%d %s", response.StatusCode, got)
		}
		response.Body.Close()
		if err := <-waiting; err == nil {
			t.Error("a read that waited got something")
		}
		var broken *message.BodyError
		if n, err := (<-bodies).Read(make([]byte, 4)); n != 0 || !errors.As(err, &broken) || broken.Reason != message.ClientGone {
			t.Errorf("read afterwards: %d %v", n, err)
		}
		send.Close()
	}
}

func TestAHandshakeThatTookUntilTheDrain(t *testing.T) {
	w := serve(t, func(x message.Stream) { text(x, 200, "ok") })
	began := make(chan struct{})
	w.server.http.RegisterOnShutdown(func() { close(began) })
	drained := make(chan error, 1)
	go func() { drained <- w.server.Drain(context.Background()) }()
	<-began
	response, err := w.client.Get("https://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("status %d", response.StatusCode)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if response, err := w.client.Get("https://a.test/"); err == nil {
		response.Body.Close()
		t.Error("served after the last call")
	}
}
