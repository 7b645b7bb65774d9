package h1

import (
	"errors"
	"io"
	"strconv"
	"time"

	"sluice.dev/sluice/proxy/message"
)

// outlet writes one message to a link: a head, and a body in few writes that never hold back what is ready for what is not.
type outlet struct {
	link    *link
	timeout time.Duration
	out     []byte // not written yet
	sent    int64  // bytes of content written
	wrote   bool   // something
	hold    bool   // leave a message in out that fits, for the owner to write

	page *[pageSize]byte
	bulk *[bulkSize]byte // while the body comes fast
}

// errWrite marks an error of writing, told apart from those of the body.
type errWrite struct{ err error }

func (e *errWrite) Error() string { return e.err.Error() }
func (e *errWrite) Unwrap() error { return e.err }

func isWrite(err error) bool {
	var write *errWrite
	return errors.As(err, &write)
}

const (
	chunkBefore = len("ffff\r\n")
	chunkAfter  = len("\r\n0\r\n\r\n")
	leastRoom   = 512
)

func (o *outlet) open() {
	o.page = pages.Get().(*[pageSize]byte)
	o.out = o.page[:0]
}

// close gives the buffers back; with poison, spoilt. It may be called twice.
func (o *outlet) close(poison bool) {
	if o.page == nil {
		return
	}
	if poison {
		for i := range o.page {
			o.page[i] = 0xdb
		}
	}
	pages.Put(o.page)
	if o.bulk != nil {
		bulks.Put(o.bulk)
	}
	o.page, o.bulk, o.out = nil, nil, nil
}

func (o *outlet) flush() error {
	if len(o.out) == 0 {
		return nil
	}
	n, err := o.link.write(o.out, o.timeout)
	o.wrote = o.wrote || n > 0
	o.out = o.out[:0]
	if err != nil {
		return &errWrite{err}
	}
	return nil
}

// body writes the content of b behind what out holds, and all of out unless that is on hold. length is the declared length for byLength; trailer names the trailer
// fields that may follow chunks. An error is an *errWrite or the body's own.
func (o *outlet) body(b message.Body, kind framing, length int64, trailer string) error {
	ready, _ := b.(message.Ready)
	for idle := 0; ; {
		if cap(o.out)-len(o.out) < leastRoom || !waiting(ready) {
			if err := o.flush(); err != nil {
				return err
			}
		}
		n, err := o.pull(b, kind, length)
		length -= int64(n)
		if n > 0 {
			idle = 0
		} else if idle++; err == nil && idle > 100 {
			err = io.ErrNoProgress
		}
		over := err == io.EOF || kind == byLength && length == 0 && err == nil //nolint:errorlint // message.Body promises the bare io.EOF
		switch {
		case over && kind == byLength && length > 0:
			over, err = false, io.ErrUnexpectedEOF
		case over && kind == byChunks:
			o.end(b, trailer)
		}
		if over && o.hold && !o.wrote {
			o.sent += int64(n)
			return nil
		}
		full := len(o.out) > cap(o.out)-chunkAfter-chunkBefore
		if e := o.flush(); e != nil {
			return e
		}
		o.sent += int64(n)
		switch {
		case over:
			return nil
		case err != nil:
			return err
		}
		o.size(full)
	}
}

// waiting reports whether a body has something that needs no waiting for.
func waiting(b message.Ready) bool {
	if b == nil {
		return false
	}
	n, end := b.Ready()
	return n > 0 || end
}

// size takes a larger buffer while reads fill it.
func (o *outlet) size(full bool) {
	switch {
	case full && o.bulk == nil:
		o.bulk = bulks.Get().(*[bulkSize]byte)
		o.out = o.bulk[:0]
	case !full && o.bulk != nil:
		bulks.Put(o.bulk)
		o.bulk = nil
		o.out = o.page[:0]
	}
}

// pull reads once from b into the room behind out, and puts a chunk around what came.
func (o *outlet) pull(b message.Body, kind framing, length int64) (int, error) {
	start := len(o.out)
	room := o.out[start:cap(o.out)]
	switch kind {
	case byLength:
		room = room[:min(int64(len(room)), length)]
	case byChunks:
		room = room[chunkBefore:min(len(room)-chunkAfter, chunkBefore+0xffff)]
	}
	n, err := b.Read(room)
	if kind != byChunks {
		o.out = o.out[:start+n]
		return n, err
	}
	if n > 0 {
		o.out = strconv.AppendUint(o.out, uint64(n), 16)
		o.out = append(o.out, '\r', '\n')
		o.out = append(o.out, room[:n]...) // moves the content down when its size has few digits
		o.out = append(o.out, '\r', '\n')
	}
	return n, err
}

// end writes the last chunk and the trailer section.
func (o *outlet) end(b message.Body, trailer string) {
	o.out = append(o.out, '0', '\r', '\n')
	if trailer != "" {
		if fields := b.Trailer(); fields != nil {
			o.trailers(fields, trailer)
		}
	}
	o.out = append(o.out, '\r', '\n')
}

func (o *outlet) trailers(h *message.Header, announced string) {
	for i := range h.Len() {
		f := h.At(i)
		if MayTrail(f.Name) && hasElement(announced, f.Name) && isToken(f.Name) && isValue(f.Value) {
			o.out = appendField(o.out, f.Name, f.Value)
		}
	}
}
