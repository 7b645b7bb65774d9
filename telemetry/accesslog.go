package telemetry

import (
	"bufio"
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
	go l.run(bufio.NewWriterSize(w, 64<<10))
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

func (l *AccessLog) run(w *bufio.Writer) {
	defer close(l.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var line []byte
	for {
		select {
		case r := <-l.queue:
			line = l.write(w, line[:0], r)
		case <-tick.C:
			_ = w.Flush() // a broken log must not stop the traffic; what it lost is lost
		case <-l.stop:
			for {
				select {
				case r := <-l.queue:
					line = l.write(w, line[:0], r)
				default:
					_ = w.Flush()
					return
				}
			}
		}
	}
}

func (l *AccessLog) write(w *bufio.Writer, line []byte, r *Record) []byte {
	line = l.append(line, r)
	*r = Record{}
	l.pool.Put(r)
	_, _ = w.Write(line) // as above; bufio keeps the first error
	return line
}
