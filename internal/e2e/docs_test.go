package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice.dev/sluice/internal/testkit"
)

var fence = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// TestDocumentsYAML runs the YAML of every page for users: all blocks of a page are one folder of manifests, which must pass
// `sluice check`, and which a server must take. A block of the kind "requests" has lines `GET http://host/path → status`
// that are asked of that server; every backend in it is one of ours, since the endpoints on a page have the ports 9001 to 9003.
func TestDocumentsYAML(t *testing.T) {
	pages, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range append(pages, "../../README.md") {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			runPage(t, string(text))
		})
	}
}

func runPage(t *testing.T, text string) {
	f := newFolder(t)
	ports := strings.NewReplacer()
	if strings.Contains(text, "900") {
		var pairs []string
		for _, fixed := range []string{"9001", "9002", "9003"} {
			pairs = append(pairs, fixed, itoa(testkit.NewBackend(t, fixed).Port))
		}
		ports = strings.NewReplacer(pairs...)
	}
	var requests []string
	blocks := 0
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		switch block[1] {
		case "yaml":
			blocks++
			f.put("block-"+itoa(blocks)+".yaml", ports.Replace(block[2]))
		case "requests":
			requests = append(requests, strings.Split(strings.TrimSpace(block[2]), "\n")...)
		}
	}
	if blocks == 0 {
		return
	}
	if out, err := exec.Command(binary, "check", f.dir).CombinedOutput(); err != nil {
		t.Fatalf("sluice check: %v\n%s", err, out)
	}
	if len(requests) == 0 {
		return
	}
	s := serve(t, "--manifests", f.dir)
	for _, line := range requests {
		method, rest, _ := strings.Cut(line, " ")
		url, want, found := strings.Cut(rest, " → ")
		if !found {
			t.Fatalf("%q is not METHOD URL → status", line)
		}
		scheme, rest, _ := strings.Cut(url, "://")
		host, path, _ := strings.Cut(rest, "/")
		at := map[string]string{"http": s.http, "https": s.https}[scheme]
		got := s.ask(method, scheme+"://"+at+"/"+path, host)
		if status, _, _ := strings.Cut(want, " "); itoa(got.code) != status {
			t.Errorf("%s: got %d, the page says %s\n%s", line, got.code, want, got.body)
		}
		if _, backend, named := strings.Cut(want, " from "); named && got.header.Get("X-Backend") != backend {
			t.Errorf("%s: from %q, the page says %s", line, got.header.Get("X-Backend"), backend)
		}
	}
}
