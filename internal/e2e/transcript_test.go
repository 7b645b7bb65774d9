package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"sluice.dev/sluice/internal/testkit"
)

// TestTranscripts runs testdata/*.txtar over the wire. A case has in.yaml (manifests), optional flags (one a line, for serve), more
// YAML files, and a transcript:
//
//	> GET https://a.test/x sni=b.test h2 http1.0 Header-Name:value     the URL's host is sent as Host
//	< 200 from NAME cert=DNSNAME Header-Name:value                     what the answer must have; -Header-Name: it must not
//	apply FILE          put the file in the place of in.yaml; the next request is repeated for up to 5 s until it is as it must be
//
// In YAML, ${name} is the port of a backend of that name, ${closed} a port where nobody listens, and a line
// `%secret NAMESPACE NAME host…` a TLS Secret for the hosts. A file of several cases names them by `# title` in the transcript.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "case-") {
			continue // these have tests of their names, in cases_test.go
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			newTranscript(t, file).run()
		})
	}
}

type transcript struct {
	t         *testing.T
	files     map[string]string
	folder    folder
	server    *sluice
	authority *testkit.Authority
	ports     map[string]string
	title     string
	patient   bool // the next request may need some time to be as it must be
}

func newTranscript(t *testing.T, file string) *transcript {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tr := &transcript{t: t, files: map[string]string{}, folder: newFolder(t), authority: testkit.NewAuthority(t), ports: map[string]string{}}
	for _, f := range archive.Files {
		tr.files[f.Name] = string(f.Data)
	}
	return tr
}

var placeholder = regexp.MustCompile(`\$\{(\w+)\}`)

// expand fills in ports and Secrets.
func (tr *transcript) expand(text string) string {
	text = placeholder.ReplaceAllStringFunc(text, func(s string) string {
		name := placeholder.FindStringSubmatch(s)[1]
		if tr.ports[name] == "" {
			if name == "closed" {
				tr.ports[name] = itoa(testkit.FreePort(tr.t))
			} else {
				tr.ports[name] = itoa(testkit.NewBackend(tr.t, name).Port)
			}
		}
		return tr.ports[name]
	})
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if fields := strings.Fields(line); len(fields) > 3 && fields[0] == "%secret" {
			chain, key := tr.authority.Issue(tr.t, time.Now().Add(time.Hour), fields[3:]...)
			lines[i] = strings.Replace(secretYAML(fields[2], chain, key), "namespace: default", "namespace: "+fields[1], 1)
		}
	}
	return strings.Join(lines, "\n")
}

func (tr *transcript) run() {
	tr.folder.put("in.yaml", tr.expand(tr.files["in.yaml"]))
	flags := append([]string{"--manifests", tr.folder.dir}, strings.Fields(tr.files["flags"])...)
	tr.server = serve(tr.t, flags...)
	lines := strings.Split(strings.TrimSpace(tr.files["transcript"]), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch word, rest, _ := strings.Cut(line, " "); word {
		case "":
		case "#":
			tr.title = rest
		case "apply":
			tr.folder.put("in.yaml", tr.expand(tr.files[rest]))
			tr.patient = true
		case ">":
			if i+1 >= len(lines) || !strings.HasPrefix(lines[i+1], "< ") {
				tr.t.Fatalf("%q has no answer line", line)
			}
			i++
			tr.exchange(rest, lines[i][2:])
		default:
			tr.t.Fatalf("transcript: %q", line)
		}
	}
}

func (tr *transcript) exchange(request, want string) {
	tr.t.Helper()
	got, mismatch := tr.try(request, want)
	for deadline := time.Now().Add(5 * time.Second); tr.patient && mismatch != "" && time.Now().Before(deadline); {
		got, mismatch = tr.try(request, want)
	}
	tr.patient = false
	if mismatch != "" {
		tr.t.Errorf("%s\n> %s\n< %s\n%s; got %d %v\n%s", tr.title, request, want, mismatch, got.code, got.header, got.body)
	}
}

// wireAnswer is an answer and the certificate that came with it.
type wireAnswer struct {
	answer
	proto string
	names []string
}

func (tr *transcript) try(request, want string) (wireAnswer, string) {
	got, err := tr.send(request)
	if err != nil {
		if want == "no connection" {
			return got, ""
		}
		return got, err.Error()
	}
	fields := strings.Fields(want)
	if itoa(got.code) != fields[0] {
		return got, "status"
	}
	for i := 1; i < len(fields); i++ {
		word := fields[i]
		name, value, isHeader := strings.Cut(word, ":")
		switch {
		case word == "from":
			i++
			if got.header.Get("X-Backend") != fields[i] {
				return got, "from " + got.header.Get("X-Backend")
			}
		case word == "h2":
			if got.proto != "HTTP/2.0" {
				return got, got.proto
			}
		case strings.HasPrefix(word, "cert="):
			if !slices.Contains(got.names, word[5:]) {
				return got, fmt.Sprintf("certificate for %v", got.names)
			}
		case strings.HasPrefix(word, "body~"):
			if !strings.Contains(got.body, strings.ReplaceAll(word[5:], "_", " ")) {
				return got, "body"
			}
		case strings.HasPrefix(word, "-"):
			if got.header.Get(word[1:]) != "" {
				return got, "a field that must not be there"
			}
		case isHeader && got.header.Get(name) != value:
			return got, name + " is " + got.header.Get(name)
		case !isHeader:
			tr.t.Fatalf("answer: %q in %q", word, want)
		}
	}
	return got, ""
}

// send makes one request on a connection of its own, so that the target goes out byte for byte.
func (tr *transcript) send(line string) (wireAnswer, error) {
	fields := strings.Fields(line)
	method := fields[0]
	scheme, rest, _ := strings.Cut(fields[1], "://")
	host, target := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, target = rest[:i], rest[i:]
	}
	o := sendOptions{method: method, host: host, target: target, proto: "HTTP/1.1", sni: strings.TrimSuffix(host, ".")}
	if name, _, err := net.SplitHostPort(host); err == nil {
		o.sni = name
	}
	for _, option := range fields[2:] {
		switch name, value, _ := strings.Cut(option, "="); {
		case name == "sni":
			o.sni = value
		case option == "h2":
			o.h2 = true
		case option == "http1.0":
			o.proto = "HTTP/1.0"
		case option == "nohost":
			o.host = ""
		default:
			o.fields = append(o.fields, strings.Replace(option, ":", ": ", 1))
		}
	}
	if scheme == "https" {
		return tr.sendTLS(o)
	}
	conn, err := net.Dial("tcp", tr.server.http)
	if err != nil {
		return wireAnswer{}, err
	}
	defer conn.Close()
	return exchangeHTTP1(conn, o)
}

type sendOptions struct {
	method, host, target, proto, sni string
	h2                               bool
	fields                           []string
}

func exchangeHTTP1(conn net.Conn, o sendOptions) (wireAnswer, error) {
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	head := o.method + " " + o.target + " " + o.proto + "\r\n"
	if o.host != "" {
		head += "Host: " + o.host + "\r\n"
	}
	for _, f := range o.fields {
		head += f + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"User-Agent: transcript\r\nConnection: close\r\n\r\n"); err != nil {
		return wireAnswer{}, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: o.method})
	if err != nil {
		return wireAnswer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if response.ContentLength >= 0 {
		response.Header.Set("Content-Length", itoa(int(response.ContentLength)))
	}
	return wireAnswer{answer: answer{response.StatusCode, string(body), response.Header}, proto: response.Proto}, err
}

func (tr *transcript) sendTLS(o sendOptions) (wireAnswer, error) {
	config := &tls.Config{ServerName: o.sni, InsecureSkipVerify: true}
	if o.h2 {
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: config, DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, tr.server.https)
		}}
		request, err := http.NewRequest(o.method, "https://"+o.host+o.target, nil)
		if err != nil {
			return wireAnswer{}, err
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return wireAnswer{}, err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return wireAnswer{answer{response.StatusCode, string(body), response.Header}, response.Proto, response.TLS.PeerCertificates[0].DNSNames}, err
	}
	conn, err := tls.Dial("tcp", tr.server.https, config)
	if err != nil {
		return wireAnswer{}, err
	}
	defer conn.Close()
	got, err := exchangeHTTP1(conn, o)
	got.names = conn.ConnectionState().PeerCertificates[0].DNSNames
	return got, err
}
