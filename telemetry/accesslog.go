package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// Record is one line of the access log.
type Record struct {
	Time           time.Time // of the request head
	Took           time.Duration
	ClientIP       string // as trusted proxies tell it
	Peer           string // the other end of the connection
	Method         string
	Host           string
	URI            string // as it came
	Version        string
	Status         int
	Read           int64 // bytes of the request body
	Written        int64 // bytes of the response body
	Reason         string
	Server         string
	Origin         string
	Upstream       string
	Endpoint       string
	Attempts       int
	UpstreamStatus int
	UpstreamWait   time.Duration
	RequestID      string
	UserAgent      string
	Referer        string
	TLSVersion     string
	ServerName     string
}

// AccessFormats are the formats of the access log.
var AccessFormats = []string{"combined", "json"}

const (
	queueLength = 8192
	flushEvery  = time.Second
	closeWithin = 2 * time.Second
)

// AccessLog writes records from a goroutine of its own. A writer that does not keep up, or is stuck, costs records, never
// requests.
type AccessLog struct {
	append func([]byte, *Record) []byte
	queue  chan *Record
	onDrop func()
	done   chan struct{}
	once   sync.Once
	stop   chan struct{}
	pool   sync.Pool
}

// NewAccessLog writes to w in one of AccessFormats. onDrop, if not nil, is told of each record that was dropped.
func NewAccessLog(w io.Writer, format string, onDrop func()) (*AccessLog, error) {
	encoders := map[string]func([]byte, *Record) []byte{"combined": appendCombined, "json": appendJSON}
	encode := encoders[format]
	if encode == nil {
		return nil, fmt.Errorf("access log format %q: use one of %v, or off", format, AccessFormats)
	}
	if onDrop == nil {
		onDrop = func() {}
	}
	l := &AccessLog{append: encode, queue: make(chan *Record, queueLength), onDrop: onDrop, done: make(chan struct{}), stop: make(chan struct{})}
	l.pool.New = func() any { return new(Record) }
	go l.run(&sink{w: w, onDrop: onDrop, buffer: make([]byte, 0, sinkSize+4096)})
	return l, nil
}

// Write takes a copy of r. It never blocks.
func (l *AccessLog) Write(r *Record) {
	if l == nil {
		return
	}
	record := l.pool.Get().(*Record)
	*record = *r
	select {
	case l.queue <- record:
	default:
		l.pool.Put(record)
		l.onDrop()
	}
}

// Close writes what is queued and ends the log, in two seconds at most. Records written later are lost.
func (l *AccessLog) Close() {
	if l == nil {
		return
	}
	l.once.Do(func() { close(l.stop) })
	select {
	case <-l.done:
	case <-time.After(closeWithin):
	}
}

func (l *AccessLog) run(s *sink) {
	defer close(l.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case r := <-l.queue:
			l.write(s, r)
		case <-tick.C:
			s.flush()
		case <-l.stop:
			for {
				select {
				case r := <-l.queue:
					l.write(s, r)
				default:
					s.flush()
					return
				}
			}
		}
	}
}

func (l *AccessLog) write(s *sink, r *Record) {
	s.buffer = l.append(s.buffer, r)
	s.records++
	*r = Record{}
	l.pool.Put(r)
	if len(s.buffer) >= sinkSize {
		s.flush()
	}
}

const sinkSize = 64 << 10

// sink gathers lines for one write. What cannot be written is dropped and counted; the next write is tried all the same, since
// a full disk may have room again.
type sink struct {
	w       io.Writer
	onDrop  func()
	buffer  []byte
	records int
	torn    bool // the last write ended inside a line
}

func (s *sink) flush() {
	if s.records == 0 {
		return
	}
	if s.torn {
		if _, err := s.w.Write([]byte("\n")); err == nil {
			s.torn = false
		}
	}
	if n, err := s.w.Write(s.buffer); err != nil {
		written := s.buffer[:min(n, len(s.buffer))]
		s.torn = s.torn || n > 0 && written[len(written)-1] != '\n'
		for range s.records - bytes.Count(written, []byte("\n")) {
			s.onDrop()
		}
	}
	s.buffer, s.records = s.buffer[:0], 0
}
