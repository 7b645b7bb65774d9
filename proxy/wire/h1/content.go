package h1

import (
	"bytes"
	"errors"
	"io"

	"sluice.dev/sluice/proxy/message"
)

// framing says where a body ends (RFC 9112 §6.3).
type framing uint8

const (
	byLength framing = iota
	byChunks
	byClose
)

const (
	maxChunkLine  = 1 << 10  // of a chunk-size line with its extensions
	maxExtensions = 16 << 10 // of all chunk extensions of a body
	maxTrailers   = 16 << 10
)

// source is what a body is read from: a link with the deadlines of its side.
type source interface {
	// fill reads more into the link's buffer.
	fill() error
	// read reads past the link's buffer, which is empty.
	read(p []byte) (int, error)
}

// errMalformed marks an error of the body's framing, told apart from errors of the connection.
type errMalformed struct{ detail string }

func (e *errMalformed) Error() string { return e.detail }

// content reads the body of one message off a link. Its error is sticky.
type content struct {
	link *link
	from source

	kind       framing
	left       int64 // of the body, or of the chunk
	chunk      chunkPart
	extensions int
	fields     int // most trailer fields
	announced  string
	trailer    message.Header
	err        error
}

type chunkPart uint8

const (
	chunkSize chunkPart = iota
	chunkData
	chunkEnd // CRLF behind the data
	chunkTrailer
)

// Read reads content without framing. It answers io.EOF along with the last bytes when it knows already.
func (b *content) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case len(p) == 0:
		return 0, nil
	case b.kind == byChunks:
		return b.readChunks(p)
	}
	n, err := b.take(p)
	switch {
	case b.kind == byClose:
		b.err = err
	case err != nil:
		b.err = unexpected(err)
	case b.left == 0:
		b.err = io.EOF
	}
	return n, b.err
}

func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // the bare io.EOF of a connection
		return io.ErrUnexpectedEOF
	}
	return err
}

// take reads some of the bytes that are left, at least one.
func (b *content) take(p []byte) (int, error) {
	if b.kind != byClose && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	l := b.link
	var n int
	if l.r == l.w {
		var err error
		if len(p) >= len(l.buf)/2 {
			n, err = b.from.read(p)
			b.left -= int64(n)
			return n, err
		}
		if err = b.from.fill(); err != nil {
			return 0, err
		}
	}
	n = copy(p, l.buffered())
	l.r += n
	b.left -= int64(n)
	return n, nil
}

func (b *content) readChunks(p []byte) (n int, err error) {
	for {
		for b.chunk != chunkData {
			moved, err := b.frame()
			switch {
			case err == nil && moved:
			case err == nil && n > 0:
				return n, nil
			case err == nil:
				if err = b.more(); err != nil {
					b.err = unexpected(err)
					return 0, b.err
				}
			default:
				b.err = err
				if n > 0 && err != io.EOF { //nolint:errorlint // frame answers the bare io.EOF
					return n, nil
				}
				return n, err
			}
		}
		if n == len(p) || n > 0 && b.link.r == b.link.w {
			return n, nil
		}
		m, err := b.take(p[n:])
		n += m
		if err != nil {
			b.err = unexpected(err)
			return n, b.err
		}
		if b.left == 0 {
			b.chunk = chunkEnd
		}
	}
}

// more reads more of the framing.
func (b *content) more() error {
	if b.link.full() && !b.link.grow(maxTrailers) {
		return &errMalformed{"a trailer section is too large"}
	}
	return b.from.fill()
}

// frame takes the next piece of framing off what is buffered. It reports false when that is not complete, and io.EOF at the end
// of the body.
func (b *content) frame() (moved bool, err error) {
	buf := b.link.buffered()
	used := 0
	switch b.chunk {
	case chunkEnd:
		if used, err = lineEnd(buf); used > 0 {
			b.chunk = chunkSize
		}
	case chunkSize:
		var extension int
		if b.left, extension, used, err = parseChunkLine(buf); used > 0 {
			b.extensions += extension
			b.chunk = chunkData
		}
		switch {
		case b.extensions > maxExtensions:
			err = &errMalformed{"chunk extensions are too large"}
		case used > 0 && b.left == 0:
			b.chunk = chunkTrailer
		}
	case chunkTrailer:
		if used, err = b.trailers(buf); used > 0 {
			b.link.r += used
			return true, io.EOF
		}
	}
	b.link.r += used
	return used > 0, err
}

// lineEnd wants CRLF and nothing else.
func lineEnd(buf []byte) (used int, err error) {
	switch {
	case len(buf) > 0 && buf[0] != '\r', len(buf) > 1 && buf[1] != '\n':
		return 0, &errMalformed{"chunk data is not followed by CRLF"}
	case len(buf) < 2:
		return 0, nil
	}
	return 2, nil
}

// parseChunkLine parses a chunk-size line (RFC 9112 §7.1). used is 0 without an error when the line is not complete.
func parseChunkLine(b []byte) (size int64, extension, used int, err error) {
	i := 0
	for ; i < len(b); i++ {
		d, ok := hexDigit(b[i])
		if !ok {
			break
		}
		if size = size<<4 | int64(d); i == 16 || size > 1<<58 {
			return 0, 0, 0, &errMalformed{"a chunk size is too large"}
		}
	}
	switch {
	case i == len(b):
		return 0, 0, 0, nil
	case i == 0:
		return 0, 0, 0, &errMalformed{"a chunk size is not a hexadecimal number"}
	}
	end, err := chunkExtension(b[i:])
	if err != nil || end == 0 {
		return 0, 0, 0, err
	}
	return size, end - 2, i + end, nil
}

// chunkExtension returns the length of what follows a chunk size, CRLF included; 0 when that is not complete. Extensions are checked and
// not looked at: nobody downstream sees them.
func chunkExtension(b []byte) (int, error) {
	named := true // whether the extension that began has a name
	began := false
	for i, c := range b {
		switch {
		case i >= maxChunkLine:
			return 0, &errMalformed{"a chunk-size line is too long"}
		case c == '\r':
			if !named {
				return 0, &errMalformed{"a chunk extension has no name"}
			}
			end, err := lineEnd(b[i:])
			if err != nil {
				return 0, &errMalformed{"CR without LF in a chunk-size line"}
			}
			if end == 0 {
				return 0, nil
			}
			return i + end, nil
		case c == ';' && named:
			began, named = true, false
		case began && (c == ' ' || c == '\t'):
		case !began || bytesOf[c]&valueByte == 0, !named && bytesOf[c]&tokenByte == 0:
			return 0, &errMalformed{"a chunk size is followed by something that is no extension"}
		default:
			named = true
		}
	}
	return 0, nil
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

var crlf = []byte("\r\n")

// trailers parses the trailer section (RFC 9112 §7.1.2) with the empty line behind it; used is 0 without an error when it is not
// complete. Only fields that were announced and may come this late are kept.
func (b *content) trailers(buf []byte) (used int, err error) {
	if len(buf) >= 2 && buf[0] == '\r' && buf[1] == '\n' {
		return 2, nil
	}
	end := headEnd(buf, 0)
	if end == 0 {
		if len(buf) >= maxTrailers {
			return 0, &errMalformed{"a trailer section is too large"}
		}
		var l lexer
		l.lines = 1 // there is no first line of another kind
		if f := l.advance(buf, func(int, string) fault { return fault{} }); f.bad() {
			return 0, &errMalformed{f.detail}
		}
		return 0, nil
	}
	rest := string(buf[:end])
	for range b.fields {
		line, after, ok := nextLine(rest)
		if !ok {
			return 0, &errMalformed{bareLF}
		}
		if line == "" {
			return end, nil
		}
		name, value, f := splitField(line)
		if f.bad() {
			return 0, &errMalformed{f.detail}
		}
		if MayTrail(name) && hasElement(b.announced, name) {
			b.trailer.Add(name, value)
		}
		rest = after
	}
	if rest == string(crlf) {
		return end, nil
	}
	return 0, &errMalformed{"too many trailer fields"}
}

// ready is message.Ready for what is buffered. Of chunks it looks no further than the current one and its end.
func (b *content) ready() (n int, end bool) {
	if b.err != nil {
		return 0, true
	}
	have := int64(b.link.w - b.link.r)
	switch {
	case b.kind == byClose:
		return int(have), false
	case b.kind == byLength || b.chunk == chunkData && have <= b.left:
		return int(min(have, b.left)), b.kind == byLength && have >= b.left
	case b.chunk != chunkData:
		return b.readyFrame(b.link.buffered())
	}
	after := b.link.buffered()[b.left:]
	return int(b.left), bytes.Equal(after, lastChunk)
}

var lastChunk = []byte("\r\n0\r\n\r\n")

// readyFrame looks behind a chunk-size line that is next.
func (b *content) readyFrame(buf []byte) (int, bool) {
	if b.chunk == chunkEnd {
		buf = bytes.TrimPrefix(buf, crlf)
	}
	size, _, used, err := parseChunkLine(buf)
	if b.chunk == chunkTrailer || err != nil || used == 0 {
		return 0, false
	}
	if size == 0 {
		return 0, bytes.Equal(buf[used:], crlf)
	}
	rest := buf[used:]
	n := min(int64(len(rest)), size)
	return int(n), bytes.Equal(rest[n:], lastChunk)
}

// probe checks as much of the framing as is buffered; known is false when the first chunk-size line is not there yet.
func (b *content) probe() (known bool, err error) {
	if b.kind != byChunks || b.chunk != chunkSize || b.err != nil {
		return true, nil
	}
	_, _, used, err := parseChunkLine(b.link.buffered())
	return used > 0, err
}

func isMalformed(err error) bool {
	var m *errMalformed
	return errors.As(err, &m)
}
