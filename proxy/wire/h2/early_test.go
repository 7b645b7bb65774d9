package h2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"sluice.dev/sluice/internal/testkit"
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
	w.server.settings.Limits.LastCall = time.Minute // ended below
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
	w.server.end()
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// TestInterimHeadsOfAStreamThatIsReset: what is still being sent of them must not be touched by what comes next.
func TestInterimHeadsOfAStreamThatIsReset(t *testing.T) {
	w := serve(t, func(x message.Stream) {
		for range 50 {
			var hints message.Header
			hints.Add("Link", "</a.css>")
			hints.Add("X-Lengthy", strings.Repeat("y", 500))
			_ = x.Inform(103, &hints) // the client is gone
		}
		text(x, 200, "ok", "X-Final", "1")
	})
	for range 10 {
		raw := w.raw()
		for stream := uint32(1); stream < 60; stream += 2 {
			raw.headers(stream, true, pseudo("GET", "/")...)
			if err := raw.framer.WriteRSTStream(stream, http2.ErrCodeCancel); err != nil {
				t.Fatal(err)
			}
		}
		raw.headers(101, true, pseudo("GET", "/")...)
		if got := raw.answer(101, "content-length"); got != "103" {
			t.Errorf("first interim head: %s", got)
		}
	}
}

func TestAnAnswerToNobody(t *testing.T) {
	for name, answer := range map[string]*message.Response{
		"with a body": {Status: 200, Length: 2, Body: &pieces{rest: []string{"ok"}}},
		"without one": {Status: 204},
	} {
		ended := make(chan error, 1)
		w := serve(t, func(x message.Stream) {
			testkit.Eventually(t, 5*time.Second, "the client is gone", x.Gone)
			_, err := x.Respond(answer)
			ended <- err
		})
		raw := w.raw()
		raw.headers(1, true, pseudo("GET", "/")...)
		if err := raw.framer.WriteRSTStream(1, http2.ErrCodeCancel); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, message.ErrClientGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
