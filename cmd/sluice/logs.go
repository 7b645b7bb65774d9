package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// logs are where the program writes: its own log, and the access log when there is one.
type logs struct {
	log    *slog.Logger
	access io.Writer
	lines  *lines
}

// openLogs opens the log, in files when a folder is set. A folder that cannot be written is said and done without.
func openLogs(o *options, s streams) *logs {
	level, _ := parseLevel(o.logLevel) // validated
	target, access, failed := s.err, s.out, error(nil)
	if o.logDir != "" {
		if target, failed = openLog(o.logDir, "sluice.log"); failed == nil {
			access, failed = openLog(o.logDir, "access.log")
		}
		if failed != nil {
			target, access = s.err, s.err
		}
	}
	l := &logs{access: access, lines: newLines(target, o.logFormat == "json")}
	settings := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(l.lines, settings)
	if o.logFormat == "json" {
		handler = slog.NewJSONHandler(l.lines, settings)
	}
	l.log = slog.New(handler)
	if failed != nil {
		l.log.Warn("the log folder cannot be written, so logs go to standard error", "folder", o.logDir, "error", failed)
	}
	return l
}

func openLog(folder, name string) (io.Writer, error) {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, fmt.Errorf("create the log folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, nil
}

func parseLevel(text string) (slog.Level, error) {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, known := levels[strings.ToLower(text)]
	if !known {
		return 0, fmt.Errorf("%q is not known; use debug, info, warn, error", text)
	}
	return level, nil
}

// lines writes lines from a goroutine of its own, so that a reader that is stuck blocks nobody: what does not fit into the
// queue is dropped and counted.
type lines struct {
	json    bool
	queue   chan []byte
	dropped atomic.Int64
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
}

func newLines(w io.Writer, json bool) *lines {
	l := &lines{json: json, queue: make(chan []byte, 4096), stop: make(chan struct{}), done: make(chan struct{})}
	go l.run(w)
	return l
}

// Write takes one line. It never blocks and never fails.
func (l *lines) Write(line []byte) (int, error) {
	select {
	case l.queue <- append([]byte(nil), line...):
	default:
		l.dropped.Add(1)
	}
	return len(line), nil
}

func (l *lines) run(w io.Writer) {
	defer close(l.done)
	for {
		select {
		case line := <-l.queue:
			l.write(w, line)
		case <-l.stop:
			for {
				select {
				case line := <-l.queue:
					l.write(w, line)
				default:
					return
				}
			}
		}
	}
}

func (l *lines) write(w io.Writer, line []byte) {
	_, _ = w.Write(line) // there is nowhere to say that the log is broken
	n := l.dropped.Swap(0)
	switch {
	case n == 0:
	case l.json:
		fmt.Fprintf(w, `{"level":"WARN","msg":"log lines dropped","lines":%d}`+"\n", n)
	default:
		fmt.Fprintf(w, "level=WARN msg=\"log lines dropped\" lines=%d\n", n)
	}
}

// close writes what is queued, for a second at most.
func (l *lines) close() {
	l.once.Do(func() { close(l.stop) })
	select {
	case <-l.done:
	case <-time.After(time.Second):
	}
}
