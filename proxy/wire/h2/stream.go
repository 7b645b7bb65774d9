package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/wire/h1"
)

// stream is one request and its response; it implements message.Stream.
type stream struct {
	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	info    *message.Conn
	request message.Request

	answered bool
	broken   bool // the response broke off, or the client did: the stream is reset

	mu   sync.Mutex // held while a deadline is set, by the handler or by whoever reads the request body
	over bool       // the handler has returned: w is net/http's again, which uses it for other streams
}

// end takes w from whoever may still read the request body: an origin that has answered early may be waiting for more of it.
func (x *stream) end() {
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
}

func (x *stream) Request() *message.Request { return &x.request }

func (x *stream) Conn() *message.Conn { return x.info }

// CloseAfter does nothing: other streams of the connection go on.
func (x *stream) CloseAfter() {}

func (x *stream) Gone() bool { return x.r.Context().Err() != nil }

func (x *stream) Inform(status int, header *message.Header) error {
	to := x.w.Header()
	copyFields(to, header)
	// Of an interim head net/http sends the map itself, and when the client resets the stream it may still read it after WriteHeader. A length,
	// which it leaves out, makes it take a copy.
	to["Content-Length"] = noLength
	x.w.WriteHeader(status)
	clear(to)
	return nil
}

var noLength = []string{"0"}

var errNoUpgrade = errors.New("HTTP/2 has no upgrade")

// Upgrade is for HTTP/1 only.
func (x *stream) Upgrade(*message.Response) (message.Tunnel, error) { return nil, errNoUpgrade }

func (x *stream) refuse(why *Refusal) {
	var response *message.Response
	if x.server.settings.Refuse != nil {
		response = x.server.settings.Refuse(x.info, why)
	}
	if response == nil {
		response = &message.Response{Status: why.Reason.Status()}
	}
	if why.Reason != message.ClientGone {
		_, _ = x.Respond(response) // the refusal has been counted; that the client left before it changes nothing
	}
}

// Respond sends the response. What net/http would add of its own is put off: a guessed Content-Type above all.
func (x *stream) Respond(r *message.Response) (int64, error) {
	x.answered = true
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }() // whether it ended well was known before
	}
	header := x.w.Header()
	copyFields(header, &r.Header)
	if _, has := header["Content-Type"]; !has {
		header["Content-Type"] = nil
	}
	if _, has := header["Server"]; !has {
		header["Server"] = sluice
	}
	bodyless := x.request.Method == http.MethodHead || r.Status == http.StatusNoContent || r.Status == http.StatusNotModified
	if r.Length != message.Unknown && r.Status != http.StatusNoContent && (r.Body != nil || r.Length > 0 || !bodyless) {
		header["Content-Length"] = []string{strconv.FormatInt(r.Length, 10)}
	}
	x.w.WriteHeader(r.Status)
	// Whatever is buffered when the handler returns goes out without a say of ours, so that this last deadline stays.
	defer x.deadline(x.control.SetWriteDeadline, x.server.settings.Limits.WriteTimeout)
	if bodyless || r.Body == nil {
		return 0, x.delivered()
	}
	sent, err := x.copy(r.Body)
	if err != nil {
		x.broken = true
		return sent, err
	}
	if t := r.Body.Trailer(); t != nil {
		for name, value := range t.All() {
			if h1.MayTrail(name) {
				header.Add(http.TrailerPrefix+name, value)
			}
		}
	}
	return sent, x.delivered()
}

// delivered is ErrClientGone when the stream was reset: what is small waits in buffers, and no write says so.
func (x *stream) delivered() error {
	if !x.Gone() {
		return nil
	}
	x.broken = true
	return message.ErrClientGone
}

var sluice = []string{"sluice"}

var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// copy pulls the body and sends it, and lets nothing wait that the origin has sent so far.
func (x *stream) copy(body message.Body) (sent int64, err error) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	ready, _ := body.(message.Ready)
	if waits(ready) { // the head does not wait for the body
		if err := x.flush(); err != nil {
			return 0, err
		}
	}
	for {
		n, err := body.Read(*buffer)
		if n > 0 {
			wrote, werr := x.writing(func() (int, error) { return x.w.Write((*buffer)[:n]) })
			sent += int64(wrote)
			if werr == nil && err == nil && waits(ready) {
				werr = x.flush()
			}
			if werr != nil {
				return sent, werr
			}
		}
		if err == io.EOF { //nolint:errorlint // io.Reader's contract
			return sent, nil
		}
		if err != nil {
			return sent, asBodyError(err)
		}
	}
}

func waits(ready message.Ready) bool {
	if ready == nil {
		return true
	}
	n, end := ready.Ready()
	return n == 0 && !end
}

func asBodyError(err error) error {
	var broken *message.BodyError
	if errors.As(err, &broken) {
		return err
	}
	return &message.BodyError{Reason: message.UpstreamTruncated, Err: err}
}

// deadline sets or, for 0, clears one of the stream's deadlines; false when the stream has none any more. Nothing is due while the other
// side of the exchange is waited for.
func (x *stream) deadline(set func(time.Time) error, after time.Duration) bool {
	var at time.Time
	if after > 0 {
		at = time.Now().Add(after)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over {
		_ = set(at) // HTTP/2 of net/http has deadlines
	}
	return !x.over
}

// writing does a write, for which the client may let the stream wait no longer than the timeout.
func (x *stream) writing(write func() (int, error)) (int, error) {
	x.deadline(x.control.SetWriteDeadline, x.server.settings.Limits.WriteTimeout)
	n, err := write()
	x.deadline(x.control.SetWriteDeadline, 0)
	if err != nil {
		err = fmt.Errorf("%w: %w", message.ErrClientGone, err)
	}
	return n, err
}

func (x *stream) flush() error {
	_, err := x.writing(func() (int, error) { return 0, x.control.Flush() })
	return err
}

func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// copyFields copies what may stand in an HTTP/2 head: no field of one connection (RFC 9113 §8.2.2), whoever put it there.
func copyFields(to http.Header, from *message.Header) {
	if from == nil {
		return
	}
	for i := range from.Len() {
		if f := from.At(i); f.ID == message.Other || f.ID > message.HTTP2Settings {
			to.Add(f.Name, f.Value)
		}
	}
}
