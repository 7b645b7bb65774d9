package engine

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// halfOpenIdle bounds how long a tunnel of which one direction has ended may be silent in the other.
const halfOpenIdle = 30 * time.Second

// tunnel joins a client and an origin after a 101. It knows nothing of rules: a change of them does not reach it.
type tunnel struct {
	client, origin message.Tunnel
	idle           time.Duration
	half           atomic.Bool  // one direction has ended
	active         atomic.Int64 // when a byte last passed, in nanoseconds of time.Now
	up, down       int64        // bytes from the client, to it
}

// run copies both ways until both directions have ended, one has failed, or nothing has passed for the idle time. A
// direction that ends is passed on as such; one that fails takes the other with it at once.
func (t *tunnel) run() {
	t.active.Store(time.Now().UnixNano())
	var origin sync.WaitGroup
	origin.Go(func() { t.down = t.copy(t.client, t.origin) })
	t.up = t.copy(t.origin, t.client)
	origin.Wait()
	t.close()
}

func (t *tunnel) close() {
	_ = t.client.Close() // both ends are given up: how they take it changes nothing
	_ = t.origin.Close()
}

var tunnelBuffers = sync.Pool{New: func() any { return new([16 << 10]byte) }}

func (t *tunnel) copy(to, from message.Tunnel) (n int64) {
	buffer := tunnelBuffers.Get().(*[16 << 10]byte)
	defer tunnelBuffers.Put(buffer)
	for {
		got, err := t.read(from, buffer[:])
		if got > 0 {
			_ = to.SetWriteDeadline(time.Now().Add(t.idle)) // a connection that cannot have one fails in Write
			if _, err := to.Write(buffer[:got]); err != nil {
				t.close()
				return n
			}
			n += int64(got)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			t.active.Store(time.Now().UnixNano())
			t.half.Store(true)
			// The other direction may wait with a deadline far off: this moves it.
			_ = to.SetReadDeadline(time.Now().Add(min(t.idle, halfOpenIdle)))
			if to.CloseWrite() != nil {
				t.close()
			}
			return n
		default:
			t.close()
			return n
		}
	}
}

// read reads from one side. A deadline that passes while the other direction is busy is no silence.
func (t *tunnel) read(from message.Tunnel, into []byte) (int, error) {
	for {
		idle, half := t.idle, t.half.Load()
		if half {
			idle = min(idle, halfOpenIdle)
		}
		last := time.Unix(0, t.active.Load())
		if err := from.SetReadDeadline(last.Add(idle)); err != nil {
			return 0, err
		}
		if half != t.half.Load() {
			continue // the deadline just set may have undone that of the direction that ended
		}
		n, err := from.Read(into)
		if n > 0 {
			t.active.Store(time.Now().UnixNano())
		}
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(time.Unix(0, t.active.Load())) >= idle {
			return n, err
		}
	}
}
