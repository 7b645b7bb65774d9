package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/wire/h1"
)

// inBubble serves one connection over a pipe, in the time of a bubble.
func inBubble(t *testing.T, limits *h1.Settings, handler message.Handler, ask func(client *http.Client)) {
	pair := testkit.NewAuthority(t).ClientCertificate(t, "a.test")
	synctest.Test(t, func(t *testing.T) {
		s := New(Settings{Handler: handler, Limits: limits})
		transport := &http.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				server, client := net.Pipe()
				go func() {
					secure := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})
					if secure.Handshake() == nil {
						s.Serve(secure, &message.Conn{})
					}
				}()
				return client, nil
			},
		}
		ask(&http.Client{Transport: transport})
		transport.CloseIdleConnections()
		s.Close()
		synctest.Wait()
	})
}

func limits() *h1.Settings {
	s := h1.DefaultSettings()
	s.BodyTimeout, s.WriteTimeout = time.Second, time.Second
	return s
}

// TestASilentOriginIsNotTheClientsFault: neither deadline runs while the other side is waited for.
func TestASilentOriginIsNotTheClientsFault(t *testing.T) {
	inBubble(t, limits(), func(x message.Stream) {
		body := x.Request().Body
		if _, err := io.ReadFull(body, make([]byte, 3)); err != nil {
			t.Error(err)
		}
		<-time.After(time.Minute) // the origin takes no more for a while
		if rest, err := io.ReadAll(body); string(rest) != "def" || err != nil {
			t.Errorf("%q %v", rest, err)
		}
		more := make(chan string)
		go func() {
			defer close(more)
			for _, piece := range []string{"one", "two"} {
				more <- piece
				<-time.After(time.Minute)
			}
		}()
		if _, err := x.Respond(&message.Response{Status: 200, Length: message.Unknown, Body: &pieces{more: more}}); err != nil {
			t.Error(err)
		}
	}, func(client *http.Client) {
		reader, writer := io.Pipe()
		go func() {
			_, _ = io.WriteString(writer, "abc")
			_, _ = io.WriteString(writer, "def")
			writer.Close()
		}()
		response, err := client.Post("https://a.test/", "text/plain", reader)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if body, err := io.ReadAll(response.Body); string(body) != "onetwo" || err != nil {
			t.Errorf("%q %v", body, err)
		}
	})
}

// TestASilentClientIsCutOff when the origin waits for its body.
func TestASilentClientIsCutOff(t *testing.T) {
	inBubble(t, limits(), func(x message.Stream) {
		_, err := io.ReadAll(x.Request().Body)
		var broken *message.BodyError
		if !errors.As(err, &broken) || broken.Reason != message.BodyTimeout {
			t.Errorf("the body ended with %v", err)
		}
		text(x, broken.Reason.Status(), "")
	}, func(client *http.Client) {
		reader, writer := io.Pipe()
		defer writer.Close()
		response, err := client.Post("https://a.test/", "text/plain", reader)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusRequestTimeout {
			t.Errorf("status %d", response.StatusCode)
		}
	})
}

// TestB7_AClientThatReadsNothing gets its stream reset, and the origin's body is given up.
func TestB7_AClientThatReadsNothing(t *testing.T) {
	var failed chan error // of the bubble
	inBubble(t, limits(), func(x message.Stream) {
		_, err := x.Respond(&message.Response{Status: 200, Length: message.Unknown, Body: endless{}})
		failed <- err
	}, func(client *http.Client) {
		failed = make(chan error, 1)
		response, err := client.Get("https://a.test/")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if err := <-failed; !errors.Is(err, message.ErrClientGone) {
			t.Errorf("Respond: %v", err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err == nil {
			t.Error("the client took a cut body for a whole one")
		}
	})
}

type endless struct{ zeros }

func (endless) Trailer() *message.Header { return nil }
func (endless) Close() error             { return nil }
