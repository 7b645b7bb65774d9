package h1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wireCase is a line of testdata/requests.txt.
type wireCase struct {
	section  string
	line     int
	bytes    string
	outcomes []outcome
}

type outcome struct {
	status    int    // 0: no answer
	reason    string // "" when the request went through
	forwarded string
	cut       bool
}

var (
	startOf  = strings.NewReplacer("{C}", "{P}Transfer-Encoding: chunked¶", "{R}", "GET / HTTP/1.0¶", "{G}", "GET / HTTP/1.1¶Host: a¶")
	repeated = regexp.MustCompile(`\{([^{}*]+)\*(\d+)\}`)
)

// decode turns the notation of the file into bytes.
func decode(t *testing.T, text string) string {
	t.Helper()
	text = strings.ReplaceAll(startOf.Replace(text), "{P}", "POST / HTTP/1.1¶Host: a¶")
	text = repeated.ReplaceAllStringFunc(text, func(s string) string {
		m := repeated.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[2])
		return strings.Repeat(m[1], n)
	})
	text = strings.ReplaceAll(strings.ReplaceAll(text, "¶", `\r\n`), `"`, `\"`)
	decoded, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return decoded
}

// caseLine is a line of a file of cases, as it stands there.
type caseLine struct {
	section string
	line    int
	in, out string
}

func readLines(t *testing.T, file string) (lines []caseLine) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	section, line := "", 0
	for text := range strings.Lines(string(b)) {
		line++
		text = strings.TrimSuffix(text, "\n")
		in, out, ok := strings.Cut(text, " ⇒ ")
		switch {
		case strings.HasPrefix(text, "== "):
			section = text[3:]
		case strings.HasPrefix(text, "#") || text == "":
		case !ok:
			t.Fatalf("%s:%d: no outcome", file, line)
		default:
			lines = append(lines, caseLine{section, line, in, out})
		}
	}
	return lines
}

func readCases(t *testing.T) (cases []wireCase) {
	t.Helper()
	for _, l := range readLines(t, "testdata/requests.txt") {
		c := wireCase{section: l.section, line: l.line, bytes: decode(t, l.in)}
		for one := range strings.SplitSeq(l.out, " ++ ") {
			c.outcomes = append(c.outcomes, readOutcome(t, one))
		}
		cases = append(cases, c)
	}
	return cases
}

var reasonName = regexp.MustCompile(`^[a-z_]+( cut)?$`)

func readOutcome(t *testing.T, text string) (o outcome) {
	status, rest, _ := strings.Cut(text, " ")
	o.status, _ = strconv.Atoi(status)
	if !reasonName.MatchString(rest) {
		o.forwarded = decode(t, rest)
		return o
	}
	o.reason, o.cut = strings.CutSuffix(rest, " cut")
	return o
}

func TestRequests(t *testing.T)              { runSection(t, "plain") }
func TestA1_LengthBesideCoding(t *testing.T) { runSection(t, "A1") }
func TestA2_Lengths(t *testing.T)            { runSection(t, "A2") }
func TestA3_Codings(t *testing.T)            { runSection(t, "A3") }
func TestA4_CodingInHTTP10(t *testing.T)     { runSection(t, "A4") }
func TestA5_LineEnds(t *testing.T)           { runSection(t, "A5") }
func TestA6_Chunks(t *testing.T)             { runSection(t, "A6") }
func TestA7_Fields(t *testing.T)             { runSection(t, "A7") }
func TestA8_Folding(t *testing.T)            { runSection(t, "A8") }
func TestA9_RequestLines(t *testing.T)       { runSection(t, "A9") }
func TestA10_Hosts(t *testing.T)             { runSection(t, "A10") }
func TestA11_Pipelining(t *testing.T)        { runSection(t, "A11") }
func TestA12_Expectations(t *testing.T)      { runSection(t, "A12") }
func TestA13_Sizes(t *testing.T)             { runSection(t, "A13") }
func TestA16_ConnectAndTrace(t *testing.T)   { runSection(t, "A16") }
func TestA17_Upgrades(t *testing.T)          { runSection(t, "A17") }
func TestE6_Queries(t *testing.T)            { runSection(t, "E6") }
func TestF1_HopByHop(t *testing.T)           { runSection(t, "F1") }
func TestF3_Underscores(t *testing.T)        { runSection(t, "F3") }
func TestF6_Trailers(t *testing.T)           { runSection(t, "F6") }

func TestEveryRequestCaseBelongsToATest(t *testing.T) {
	sections := []string{"plain", "A1", "A2", "A3", "A4", "A5", "A6", "A7", "A8", "A9", "A10", "A11", "A12", "A13", "A16", "A17", "E6", "F1", "F3", "F6"}
	cases := readCases(t)
	for _, c := range cases {
		if id, _, _ := strings.Cut(c.section, " "); !slices.Contains(sections, id) {
			t.Errorf("line %d: section %q has no test", c.line, c.section)
		}
	}
	if len(cases) < 250 {
		t.Errorf("only %d cases", len(cases))
	}
}

// runSection runs the cases of a section, each read at once and byte by byte.
func runSection(t *testing.T, id string) {
	for _, c := range readCases(t) {
		if !strings.HasPrefix(c.section, id+" ") {
			continue
		}
		name := strconv.Itoa(c.line)
		t.Run(name, func(t *testing.T) { t.Parallel(); runCase(t, c, false) })
		if len(c.bytes) < 2000 {
			t.Run(name+"-by-bytes", func(t *testing.T) { t.Parallel(); runCase(t, c, true) })
		}
	}
}

// runCase sends the bytes of a case, which the server reads at once or one by one, and compares what came of them.
func runCase(t *testing.T, c wireCase, slowly bool) {
	origin := record(t)
	f := forwardTo(origin.addr)
	w := serve(t, quick(), f.serve)
	w.trickle.Store(slowly)
	nc := w.dial().Conn
	go func() {
		_, _ = io.WriteString(nc, c.bytes) // a refusal may close before all is sent
		closeWrite(nc)
	}()
	answers := readAnswers(t, nc, c)
	var statuses []int
	var reasons []string
	var forwarded []recorded
	for _, o := range c.outcomes {
		if o.status > 0 {
			statuses = append(statuses, o.status)
		}
		switch {
		case o.reason == "":
			forwarded = append(forwarded, recorded{o.forwarded, true})
		case o.cut:
			forwarded = append(forwarded, recorded{})
			fallthrough
		default:
			reasons = append(reasons, o.reason)
		}
	}
	if !slices.Equal(answers, statuses) {
		t.Errorf("%q: answered %v, want %v", c.bytes, answers, statuses)
	}
	if got := append(f.failed(), w.reasons()...); !slices.Equal(got, reasons) {
		t.Errorf("%q: reasons %v, want %v", c.bytes, got, reasons)
	}
	got := origin.got(len(forwarded))
	for i := range got {
		if i < len(forwarded) && !forwarded[i].whole && !got[i].whole {
			got[i].bytes = "" // how far it came is a matter of time
		}
		got[i].bytes = oneChunk(got[i].bytes)
	}
	if !slices.Equal(got, forwarded) {
		t.Errorf("%q: forwarded\n%+v, want\n%+v", c.bytes, got, forwarded)
	}
}

// oneChunk joins the chunks of a message that has some.
func oneChunk(text string) string {
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	if !strings.Contains(head, "Transfer-Encoding: chunked") {
		return text
	}
	content := ""
	for {
		line, rest, _ := strings.Cut(body, "\r\n")
		size, err := strconv.ParseUint(line, 16, 31)
		if err != nil || int(size)+2 > len(rest) {
			return text
		}
		if size == 0 {
			break
		}
		content, body = content+rest[:size], rest[size+2:]
	}
	if content != "" {
		content = strconv.FormatInt(int64(len(content)), 16) + "\r\n" + content + "\r\n"
	}
	return head + "\r\n\r\n" + content + body
}

// readAnswers reads the final responses until the connection ends.
func readAnswers(t *testing.T, nc net.Conn, c wireCase) (statuses []int) {
	r := bufio.NewReader(nc)
	for i := 0; ; i++ {
		method := "GET"
		if i < len(c.outcomes) && strings.HasPrefix(c.outcomes[i].forwarded, "HEAD") {
			method = "HEAD"
		}
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return statuses
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Errorf("%q: read response body: %v", c.bytes, err)
		}
		if resp.StatusCode >= 200 {
			statuses = append(statuses, resp.StatusCode)
		} else {
			i--
		}
		if refused := resp.StatusCode >= 400 && resp.StatusCode != 499; refused && !resp.Close {
			t.Errorf("%q: a refusal does not announce the end", c.bytes)
		}
	}
}
