package engine

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"sluice.dev/sluice/internal/testkit"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/telemetry"
)

// TestTranscripts plays testdata/*.txtar: configs as users write them, and what goes over the wire. A line of a script is
//
//	apply FILE              applies a config of the archive; $v1 in it is the address of a backend, made on first mention
//	> [@SERVER] METHOD URL [h2|h1.0] [sni=NAME] [certificate]    sends a request; indented lines are fields, or the body after |
//	< STATUS [via=BACKEND] [reason=|client=|upstream=|server=|version=|tls=|sni=VALUE]  is its response; indented lines must hold of it:
//	      Name: value       a field (value * is any, and /re/ a pattern), !Name none of it
//	      saw Name: value   a field that the backend got, likewise, and saw !Name
//	      body /re/
//	down|up BACKEND         ends and starts a backend
//	service NAME = WORDS    changes an upstream (see world.service) and applies the last config again
//	problem TEXT            some problem of the last apply has the text; problems none
//	occupy|free SERVER      takes and gives up the port that SERVER is configured to listen on
//	listening SERVER yes|no waits until it is so
//	open|send|receive|closed NAME …   is a WebSocket
//	drain, drained TEXT     starts the drain; waits for it, and its error has the text ("" none)
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			playFile(t, file)
		})
	}
}

func playFile(t *testing.T, file string) {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	newPlay(t, archive).run()
}

// The lines of the security checklist that are transcripts.

func TestF1_ConnectionTakesAwayOnlyWhatTheClientSent(t *testing.T) {
	playFile(t, "testdata/hop-by-hop.txtar")
}

func TestF2_ForwardingFieldsOfStrangersAreReplaced(t *testing.T) {
	playFile(t, "testdata/forwarded-untrusted.txtar")
}

func TestF2_ForwardingFieldsOfTrustedPeersAreKept(t *testing.T) {
	playFile(t, "testdata/forwarded-trusted.txtar")
}

func TestF7_OurAnswersRevealNothing(t *testing.T) { playFile(t, "testdata/not-found.txtar") }

func TestF7_WhatTheOriginAnswersIsKept(t *testing.T) { playFile(t, "testdata/failure-code.txtar") }

func TestF9_RedirectsAreNotBuiltFromWhatClientsMakeUp(t *testing.T) {
	playFile(t, "testdata/redirect.txtar")
}

func TestD2_D3_AHandshakeServesItsOwnHost(t *testing.T) { playFile(t, "testdata/tls.txtar") }

type play struct {
	t       *testing.T
	world   *world
	engine  *Engine
	files   map[string]string
	current string // file last applied
	outcome model.Outcome
	records *records
	reply   *reply
	taken   map[string]net.Listener
	sockets map[string]*websocket
	drained chan error
	lost    bool // a server was removed
}

func newPlay(t *testing.T, archive *txtar.Archive) *play {
	p := &play{t: t, world: newWorld(t), files: map[string]string{}, taken: map[string]net.Listener{}, sockets: map[string]*websocket{}, drained: make(chan error, 1)}
	for _, f := range archive.Files {
		p.files[f.Name] = string(f.Data)
	}
	settings := Settings{Log: slog.New(slog.NewTextHandler(testWriter{t}, nil)), Metrics: telemetry.New(), BindRetry: 20 * time.Millisecond, DrainDelay: 500 * time.Millisecond, DrainTimeout: 2 * time.Second}
	for _, line := range lines(p.files["options"]) {
		words := strings.Fields(line)
		switch words[0] {
		case "trusted-proxies":
			settings.TrustedProxies = append(settings.TrustedProxies, netip.MustParsePrefix(words[1]))
		case "tls":
			p.world.tls = append(p.world.tls, strings.Join(words[1:], " "))
		case "service":
			p.world.services[words[1]] = strings.Join(words[3:], " ")
		case "head-timeout":
			settings.Upstream.HeadTimeout, _ = time.ParseDuration(words[1])
		case "connect-timeout":
			settings.Upstream.ConnectTimeout, _ = time.ParseDuration(words[1])
		default:
			t.Fatalf("option %s", line)
		}
	}
	p.records = &records{t: t}
	settings.AccessLog = p.records
	p.engine = New(settings)
	t.Cleanup(func() {
		closeAndCheck(t, p.engine)
		p.checkCounts(settings.Metrics)
	})
	return p
}

// checkCounts compares the counters with the access log: each has every exchange once.
func (p *play) checkCounts(m *telemetry.Metrics) {
	if p.lost {
		return // the counters of a server that was removed are gone
	}
	families, err := m.Registry().Gather()
	if err != nil {
		p.t.Fatal(err)
	}
	counted := 0.0
	for _, f := range families {
		if f.GetName() == "sluice_server_requests_total" {
			for _, metric := range f.GetMetric() {
				counted += metric.GetCounter().GetValue()
			}
		}
	}
	if int(counted) != len(p.records.all) {
		p.t.Errorf("%v requests counted, %d logged", counted, len(p.records.all))
	}
}

func lines(text string) (all []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			all = append(all, line)
		}
	}
	return all
}

func (p *play) run() {
	script := lines(p.files["script"])
	for i := 0; i < len(script); {
		line := script[i]
		i++
		var details []string
		for ; i < len(script) && strings.HasPrefix(script[i], " "); i++ {
			details = append(details, strings.TrimSpace(script[i]))
		}
		p.t.Log(line)
		p.step(line, details)
		if p.t.Failed() {
			p.t.FailNow()
		}
	}
}

func (p *play) step(line string, details []string) {
	words := strings.Fields(line)
	rest := strings.TrimSpace(strings.TrimPrefix(line, words[0]))
	switch words[0] {
	case ">":
		p.reply = p.request(words[1:], details)
	case "<":
		p.expect(words[1:], details)
	case "apply":
		p.apply(rest)
	case "service":
		p.world.services[words[1]] = strings.Join(words[3:], " ")
		p.apply(p.current)
	case "down":
		p.world.backend(rest).down()
	case "up":
		p.world.backend(rest).up(p.t)
	case "problem":
		for _, problem := range p.outcome.Problems {
			if strings.Contains(problem.String(), rest) {
				return
			}
		}
		p.t.Errorf("no problem has %q: %v", rest, p.outcome.Problems)
	case "problems":
		if len(p.outcome.Problems) > 0 {
			p.t.Errorf("problems: %v", p.outcome.Problems)
		}
	default:
		p.live(words, rest)
	}
}

// live are the steps about listening, sockets and the end.
func (p *play) live(words []string, rest string) {
	switch words[0] {
	case "occupy":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.t.Fatal(err)
		}
		p.taken[rest] = l
		p.world.ports[rest] = portOf(p.t, l.Addr().String())
		p.t.Cleanup(func() { l.Close() })
	case "free":
		p.taken[rest].Close()
	case "listening":
		testkit.Eventually(p.t, 10*time.Second, strings.Join(words, " "), func() bool {
			_, bound := p.engine.Addr(words[1])
			return bound == (words[2] == "yes")
		})
	case "open":
		p.sockets[words[1]] = p.open(words[2])
	case "send":
		io.WriteString(p.sockets[words[1]].conn, strings.Join(words[2:], " ")+"\n")
	case "receive":
		if got := p.sockets[words[1]].line(p.t); got != strings.Join(words[2:], " ") {
			p.t.Errorf("%s received %q", words[1], got)
		}
	case "closed":
		if got, err := p.sockets[words[1]].reader.ReadString('\n'); err == nil {
			p.t.Errorf("%s received %q", words[1], got)
		}
	case "drain":
		go func() { p.drained <- p.engine.Drain(context.Background()) }()
		testkit.Eventually(p.t, time.Second, "draining", p.engine.Draining)
	case "drained":
		err := <-p.drained
		if got := fmt.Sprint(err); err == nil && rest != "" || err != nil && (rest == "" || !strings.Contains(got, rest)) {
			p.t.Errorf("drained: %v", err)
		}
	default:
		p.t.Fatalf("no such step: %s", strings.Join(words, " "))
	}
}

func (p *play) apply(file string) {
	p.t.Helper()
	text, found := p.files[file]
	if !found {
		p.t.Fatalf("no file %s", file)
	}
	p.current = file
	before := len(p.engine.Snapshot().servers)
	p.outcome = p.engine.Apply(p.world.config(file, text))
	p.lost = p.lost || len(p.engine.Snapshot().servers) < before
}

// expect compares the reply with what the script says.
func (p *play) expect(words, details []string) {
	r := p.reply
	if r.err != nil {
		if words[0] != "broken" {
			p.t.Errorf("no response: %v", r.err)
		}
		return
	}
	if words[0] != "broken" && fmt.Sprint(r.status) != words[0] {
		p.t.Errorf("status %d, want %s\n%s", r.status, words[0], r.body)
	}
	for _, w := range words[1:] {
		key, want, _ := strings.Cut(w, "=")
		switch key {
		case "via":
			if got := r.header.Get("X-Backend"); got != want {
				p.t.Errorf("via %s, want %s", got, want)
			}
		default:
			if got := recorded(p.records.of(r.header.Get("X-Request-Id")), key); got != want {
				p.t.Errorf("%s %s, want %s", key, got, want)
			}
		}
	}
	for _, d := range details {
		p.detail(r, d)
	}
}

func (p *play) detail(r *reply, d string) {
	if pattern, ok := strings.CutPrefix(d, "body "); ok {
		if !holds(string(r.body), pattern) {
			p.t.Errorf("body %q is not %s", r.body, pattern)
		}
		return
	}
	header, where := r.header, "response"
	if seen, ok := strings.CutPrefix(d, "saw "); ok {
		d, where = seen, "request at the backend"
		header, _ = p.world.backend(r.header.Get("X-Backend")).saw()
	}
	if name, ok := strings.CutPrefix(d, "!"); ok {
		if got := header.Values(name); len(got) > 0 {
			p.t.Errorf("%s: %s is %q", where, name, got)
		}
		return
	}
	name, want, _ := strings.Cut(d, ": ")
	if got := header.Values(name); len(got) != 1 || !holds(got[0], want) {
		p.t.Errorf("%s: %s is %q, want %s", where, name, got, want)
	}
}

func recorded(r telemetry.Record, key string) string {
	return map[string]string{
		"reason": r.Reason, "client": r.ClientIP, "upstream": r.Upstream, "server": r.Server, "version": r.Version, "tls": r.TLSVersion, "sni": r.ServerName,
	}[key]
}

func holds(got, want string) bool {
	if len(want) > 1 && want[0] == '/' && want[len(want)-1] == '/' && strings.ContainsAny(want, `\.*+[^$`) {
		return regexp.MustCompile(want[1 : len(want)-1]).MatchString(got)
	}
	return want == "*" || got == want
}

// records are the records of the access log.
type records struct {
	t   testing.TB
	mu  sync.Mutex
	all []telemetry.Record
}

func (r *records) Write(record *telemetry.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, *record)
}

// find waits for a record.
func (r *records) find(what string, wanted func(*telemetry.Record) bool) (found telemetry.Record) {
	r.t.Helper()
	testkit.Eventually(r.t, 20*time.Second, "log record of "+what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range r.all {
			if wanted(&r.all[i]) {
				found = r.all[i]
				return true
			}
		}
		return false
	})
	return found
}

// of waits for the record of a request.
func (r *records) of(id string) telemetry.Record {
	r.t.Helper()
	return r.find("request "+id, func(record *telemetry.Record) bool { return record.RequestID == id })
}

// testWriter writes to the test's log until the test is over.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimRight(string(p), "\n"))
	}
	return len(p), nil
}

// reply is a response, or why there was none.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}
