package engine

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// tcpPair returns the two ends of a connection over loopback.
func tcpPair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close(); accepted.Close() })
	return dialed.(*net.TCPConn), accepted.(*net.TCPConn)
}

// joined runs a tunnel; client and origin are the far ends of its two sides.
func joined(t *testing.T) (client, origin *net.TCPConn, tun *tunnel, done chan struct{}) {
	t.Helper()
	client, near := tcpPair(t)
	origin, far := tcpPair(t)
	tun = &tunnel{client: near, origin: far, idle: time.Minute}
	done = make(chan struct{})
	go func() {
		defer close(done)
		tun.run()
	}()
	return client, origin, tun, done
}

func within1s(t *testing.T, what string, f func() error) error {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- f() }()
	select {
	case err := <-result:
		return err
	case <-time.After(time.Second):
		t.Fatalf("not within 1 s: %s", what)
		return nil
	}
}

func readAll(c net.Conn) (string, error) {
	b, err := io.ReadAll(c)
	return string(b), err
}

func TestATunnelPassesHalfCloseOn(t *testing.T) {
	client, origin, tun, done := joined(t)
	io.WriteString(client, "question")
	client.CloseWrite()
	got, err := readAll(origin)
	if got != "question" || err != nil {
		t.Fatalf("origin got %q, %v", got, err)
	}
	io.WriteString(origin, "answer")
	origin.Close()
	if got, err = readAll(client); got != "answer" || err != nil {
		t.Fatalf("client got %q, %v", got, err)
	}
	<-done
	if tun.up != 8 || tun.down != 6 {
		t.Errorf("counted %d up, %d down", tun.up, tun.down)
	}
}

func TestCase_B09_TheDeathOfOneSideReachesTheOther(t *testing.T) {
	for _, c := range []struct {
		name  string
		reset bool
	}{{"FIN", false}, {"RST", true}} {
		for _, side := range []string{"origin", "client"} {
			t.Run(side+" "+c.name, func(t *testing.T) {
				client, origin, _, done := joined(t)
				dying, left := origin, client
				if side == "client" {
					dying, left = client, origin
				}
				if c.reset {
					dying.SetLinger(0)
				}
				dying.Close()
				err := within1s(t, "the other side hears of it", func() error {
					_, err := left.Read(make([]byte, 1))
					return err
				})
				if err == nil {
					t.Error("a byte arrived")
				}
				left.Close()
				<-done
			})
		}
	}
}

func TestATunnelThatIsClosedEnds(t *testing.T) {
	client, _, tun, done := joined(t)
	tun.close()
	<-done
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the client was not told")
	}
}

// pipeTunnel is a net.Pipe end with a CloseWrite that only notes.
type pipeTunnel struct {
	net.Conn
	halfClosed atomic.Bool
}

func (p *pipeTunnel) CloseWrite() error { p.halfClosed.Store(true); return nil }

var _ message.Tunnel = (*pipeTunnel)(nil)

func TestASilentTunnelEndsAndATalkingOneDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, near := net.Pipe()
		origin, far := net.Pipe()
		tun := &tunnel{client: &pipeTunnel{Conn: near}, origin: &pipeTunnel{Conn: far}, idle: time.Minute}
		start := time.Now()
		over := make(chan time.Duration, 1)
		go func() { tun.run(); over <- time.Since(start) }()
		// Only the origin talks; the silence of the client must not end the tunnel.
		for range 5 {
			<-time.After(50 * time.Second)
			origin.Write([]byte("x"))
			client.Read(make([]byte, 1))
		}
		if got, want := <-over, 250*time.Second+time.Minute; got != want {
			t.Errorf("ended after %s, want %s", got, want)
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
			t.Errorf("the client's side: %v", err)
		}
	})
}

func TestAHalfOpenTunnelEndsSooner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, near := net.Pipe()
		origin, far := net.Pipe()
		side := &pipeTunnel{Conn: near}
		tun := &tunnel{client: side, origin: &pipeTunnel{Conn: far}, idle: time.Hour}
		start := time.Now()
		over := make(chan time.Duration, 1)
		go func() { tun.run(); over <- time.Since(start) }()
		<-time.After(40 * time.Minute)
		origin.Close()
		if got, want := <-over, 40*time.Minute+halfOpenIdle; got != want {
			t.Errorf("ended after %s, want %s", got, want)
		}
		if !side.halfClosed.Load() {
			t.Error("the end was not passed on")
		}
	})
}
