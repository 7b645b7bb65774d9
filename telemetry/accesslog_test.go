package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var sample = Record{
	Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Took: 1500 * time.Microsecond, ClientIP: "192.0.2.1", Peer: "192.0.2.1", Method: "GET", Host: "a.test",
	URI: "/x?y=1", Version: "HTTP/1.1", Status: 200, Written: 128, Reason: "ok", Server: "public/http", Origin: "Ingress shop/web spec.rules[0]",
	Upstream: "shop/web:80", Endpoint: "127.0.0.1:80", Attempts: 1, UpstreamStatus: 200, UpstreamWait: time.Millisecond, RequestID: "0123", UserAgent: "curl",
}

func TestFormats(t *testing.T) {
	combined := string(appendCombined(nil, &sample))
	want := `192.0.2.1 - - [02/Jan/2026:03:04:05 +0000] "GET /x?y=1 HTTP/1.1" 200 128 "-" "curl" 0.001500 ok "a.test" "public/http" "Ingress shop/web spec.rules[0]" "shop/web:80" "127.0.0.1:80" "0123"` + "\n"
	if combined != want {
		t.Errorf("combined:\n%s\nwant\n%s", combined, want)
	}
	var fields map[string]any
	if err := json.Unmarshal(appendJSON(nil, &sample), &fields); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"status": 200.0, "reason": "ok", "host": "a.test", "seconds": 0.0015, "upstream_seconds": 0.001, "attempts": 1.0, "time": "2026-01-02T03:04:05.000Z"} {
		if fields[name] != want {
			t.Errorf("%s is %v, want %v", name, fields[name], want)
		}
	}
}

// TestF12_NoFieldForgesALine puts every byte into every field that a client controls.
func TestF12_NoFieldForgesALine(t *testing.T) {
	var every []byte
	for c := range 256 {
		every = append(every, byte(c))
	}
	evil := string(every) + "\" 200 \r\n{\"x\":1}\x1b[31m\u0085\u2028"
	r := sample
	r.ClientIP, r.Version = evil, evil
	r.Method, r.Host, r.URI, r.UserAgent, r.Referer, r.ServerName, r.RequestID = evil, evil, evil, evil, evil, evil, evil
	for name, line := range map[string][]byte{"combined": appendCombined(nil, &r), "json": appendJSON(nil, &r)} {
		body := bytes.TrimSuffix(line, []byte("\n"))
		for _, c := range body {
			if c < 0x20 || c == 0x7f {
				t.Fatalf("%s: a control byte %#x is left", name, c)
			}
		}
	}
	if line := appendCombined(nil, &r); bytes.Count(line, []byte("\n")) != 1 || bytes.Count(line, []byte(`"`)) != bytes.Count(appendCombined(nil, &sample), []byte(`"`)) {
		t.Error("combined: a quote of the client's is left")
	}
	var fields map[string]any
	if err := json.Unmarshal(appendJSON(nil, &r), &fields); err != nil {
		t.Errorf("json: %v", err)
	}
}

// stuck is a writer that blocks until it is let go.
type stuck struct{ let chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.let
	return len(p), nil
}

func TestAStuckWriterBlocksNobody(t *testing.T) {
	w := stuck{make(chan struct{})}
	var dropped atomic.Int64
	l, err := NewAccessLog(w, "json", func() { dropped.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for range 3 * queueLength {
		l.Write(&sample)
	}
	if dropped.Load() == 0 {
		t.Error("nothing was dropped")
	}
	l.Close()
	if took := time.Since(begin); took > closeWithin+5*time.Second {
		t.Errorf("took %s", took)
	}
	close(w.let)
}

// full is a disk that has room for some bytes, and then none until it is emptied.
type full struct {
	room    int
	written bytes.Buffer
}

func (f *full) Write(p []byte) (int, error) {
	n := min(f.room, len(p))
	f.room -= n
	f.written.Write(p[:n])
	if n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func TestAFullDiskCostsItsRecordsOnly(t *testing.T) {
	dropped := 0
	disk := &full{}
	s := &sink{w: disk, onDrop: func() { dropped++ }}
	put := func(n int) {
		for range n {
			s.buffer = appendCombined(s.buffer, &sample)
			s.records++
		}
		s.flush()
	}
	line := len(appendCombined(nil, &sample))
	disk.room = 2*line + 10
	put(5)
	put(1)
	if dropped != 4 {
		t.Errorf("%d records counted as dropped, want 4", dropped)
	}
	disk.room = 100 * line
	put(3)
	lines := strings.Split(strings.TrimSuffix(disk.written.String(), "\n"), "\n")
	whole := 0
	for _, l := range lines {
		if len(l) == line-1 {
			whole++
		}
	}
	if len(lines) != 6 || whole != 5 || dropped != 4 {
		t.Errorf("%d lines, %d of them whole, %d dropped:\n%s", len(lines), whole, dropped, disk.written.String())
	}
}

func TestCloseWritesTheQueue(t *testing.T) {
	var out bytes.Buffer
	l, err := NewAccessLog(&out, "combined", nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		l.Write(&sample)
	}
	l.Close()
	l.Close()
	if n := strings.Count(out.String(), "\n"); n != 100 {
		t.Errorf("%d lines, want 100", n)
	}
	if _, err := NewAccessLog(&out, "xml", nil); err == nil || !strings.Contains(err.Error(), "combined") {
		t.Errorf("unknown format: %v", err)
	}
}

func TestAllocsOfARecord(t *testing.T) {
	line := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { line = appendJSON(line[:0], &sample) }); n > 0 {
		t.Errorf("appendJSON allocates %v times", n)
	}
	if n := testing.AllocsPerRun(100, func() { line = appendCombined(line[:0], &sample) }); n > 0 {
		t.Errorf("appendCombined allocates %v times", n)
	}
	l, err := NewAccessLog(io.Discard, "json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if n := testing.AllocsPerRun(2000, func() {
		l.Write(&sample)
		runtime.Gosched() // to the goroutine that writes, as between two requests
	}); n > 0 {
		t.Errorf("Write allocates %v times", n)
	}
}
