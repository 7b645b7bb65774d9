package h1

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// small is the size of the buffer that a connection holds while it is idle.
const small = 4 << 10

// link is a connection with a buffer for reading ahead and with deadlines that are moved lazily. One goroutine reads and
// one writes.
type link struct {
	nc   net.Conn
	buf  []byte
	r, w int // what is read ahead is buf[r:w]

	readBy, writeBy time.Time // the deadlines that nc has; zero: none

	stop   atomic.Bool // reading is to end now
	socket socket
	push   push
}

// past is a deadline that interrupts at once.
func past() time.Time { return time.Unix(1, 0) }

// limitRead sees to it that reading fails between d and 5/4 d from now on; 0 means never.
func (l *link) limitRead(now time.Time, d time.Duration) {
	if by, moved := lazily(l.readBy, now, d); moved {
		l.readBy = by
		_ = l.nc.SetReadDeadline(by) // a connection that cannot have one fails in Read
	}
}

// limitWrite is limitRead for writing.
func (l *link) limitWrite(now time.Time, d time.Duration) {
	if by, moved := lazily(l.writeBy, now, d); moved {
		l.writeBy = by
		_ = l.nc.SetWriteDeadline(by) // a connection that cannot have one fails in Write
	}
}

func lazily(set, now time.Time, d time.Duration) (time.Time, bool) {
	if d <= 0 {
		return time.Time{}, !set.IsZero()
	}
	if left := set.Sub(now); !set.IsZero() && left >= d && left <= d+d/4 {
		return set, false
	}
	return now.Add(d + d/4), true
}

// readUntil sets the read deadline to a point in time exactly.
func (l *link) readUntil(by time.Time) {
	if !l.readBy.Equal(by) {
		l.readBy = by
		_ = l.nc.SetReadDeadline(by) // a connection that cannot have one fails in Read
	}
}

// buffered is what was read ahead.
func (l *link) buffered() []byte { return l.buf[l.r:l.w] }

// fill reads once more into the buffer. It needs room: less than len(buf) bytes may be buffered.
func (l *link) fill() error {
	if l.r > 0 {
		l.w = copy(l.buf, l.buf[l.r:l.w])
		l.r = 0
	}
	n, err := l.read(l.buf[l.w:])
	l.w += n
	return err
}

// read reads from the connection past the buffer, which is empty. It answers no error along with bytes. A deadline that somebody moved to wake
// another read is put right.
func (l *link) read(p []byte) (int, error) {
	for {
		n, err := l.nc.Read(p)
		if n > 0 {
			return n, nil
		}
		if err == nil {
			err = io.ErrNoProgress
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || l.stop.Load() || l.due() {
			return 0, err
		}
		_ = l.nc.SetReadDeadline(l.readBy) // a connection that cannot have one fails in Read
		if l.stop.Load() {
			return 0, err
		}
	}
}

// due reports whether the read deadline that was meant has passed.
func (l *link) due() bool { return !l.readBy.IsZero() && !time.Now().Before(l.readBy) }

// grow makes the buffer hold up to limit bytes; false when it does already.
func (l *link) grow(limit int) bool {
	if len(l.buf) >= limit {
		return false
	}
	bigger := make([]byte, min(limit, 2*len(l.buf)))
	l.w = copy(bigger, l.buf[l.r:l.w])
	l.r = 0
	l.buf = bigger
	return true
}

// full reports whether fill has no room.
func (l *link) full() bool { return l.w-l.r == len(l.buf) }

// leastTaken is what the other side must take in each timeout. Somebody who takes a byte now and then only holds us up.
const leastTaken = 4 << 10

// write writes all of p as long as the other side keeps taking it. It returns how much it wrote.
func (l *link) write(p []byte, timeout time.Duration) (written int, err error) {
	for {
		l.limitWrite(time.Now(), timeout)
		n, err := l.push.write(l.nc, p[written:])
		written += n
		if err == nil || n < leastTaken || !errors.Is(err, os.ErrDeadlineExceeded) || l.secure() {
			return written, err
		}
	}
}

// secure reports whether the connection is wrapped, as by TLS, which cannot go on after a partial write.
func (l *link) secure() bool { return l.under() != l.nc }

// under is the connection below TLS.
func (l *link) under() net.Conn {
	if wrapped, ok := l.nc.(interface{ NetConn() net.Conn }); ok {
		return wrapped.NetConn()
	}
	return l.nc
}

// cut ends the connection so that the other side cannot take it for a regular end: no TLS close alert, and a reset where
// the protocol below has one.
func (l *link) cut() {
	under := l.under()
	if tcp, ok := under.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // a connection that is closed already cannot linger
	}
	under.Close()
}

// settle waits a while until the kernel has sent what was written, which a cut would drop.
func (l *link) settle(most time.Duration) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(most); unsent(l.under()) > 0 && time.Now().Before(end); {
		<-tick.C
	}
}

// part closes gently (RFC 9112 §9.6): it stops sending and reads a while, so that what was sent is not lost to a reset.
func (l *link) part(most int64, within time.Duration) {
	defer l.nc.Close()
	if !closeWrite(l.nc) {
		return
	}
	under := l.under()
	_ = under.SetReadDeadline(time.Now().Add(within)) // a connection that cannot have one is closed
	_, _ = io.Copy(io.Discard, io.LimitReader(under, most))
}

func closeWrite(nc net.Conn) bool {
	half, ok := nc.(interface{ CloseWrite() error })
	return ok && half.CloseWrite() == nil
}
