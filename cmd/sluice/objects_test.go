package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"sluice.dev/sluice/internal/testkit"
)

// TestProblemsHaveTheirPlace looks for file and line of a field, of an object that cannot be read, and of a text that is no YAML.
func TestProblemsHaveTheirPlace(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	p := start(t, backend.Port).ready()
	p.put("deep.yaml", `apiVersion: v1
kind: Service
metadata: {name: none}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: deep}
spec:
  rules:
  - host: deep.test
    http:
      paths:
      - path: /
        pathType: Prefix
        backend: {service: {name: nobody, port: {number: 80}}}
`)
	p.put("controller.yaml", "kind: IngressController\nname: typo\nhttpServer:\n  port: 1\n  keepAlife: true\n")
	p.put("broken.yaml", "kind: Ingress\n\tmetadata: {}\n")
	for object, place := range map[string]string{
		`object="Ingress default/deep"`:       "deep.yaml line=15",
		`object="IngressController typo"`:     "controller.yaml line=5",
		"object=\"File " + p.folder + "/brok": "broken.yaml line=2",
	} {
		p.await("the problem of "+object+" is logged", func() bool { return strings.Contains(p.err.String(), object) })
		_, line, _ := strings.Cut(p.err.String(), object)
		if line, _, _ = strings.Cut(line, "\n"); !strings.Contains(line, place) {
			t.Errorf("%s: the line lacks %s: %s", object, place, line)
		}
	}
	if _, body := p.ask(p.api, "localhost", "/debug/problems"); !strings.Contains(body, `"line": 15`) || !strings.Contains(body, `controller.yaml",`) {
		t.Errorf("/debug/problems: %s", body)
	}
}

// TestLateController adds an IngressController where --http says where to listen.
func TestLateController(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	p := start(t, backend.Port).ready()
	p.put("controller.yaml", "kind: IngressController\nname: late\nhttpServer: {port: 1}\n")
	p.await("it has a problem", func() bool { return strings.Contains(p.err.String(), `object="IngressController late"`) })
	if code, body := p.ask(p.http, "slow.test", "/"); code != 200 {
		t.Errorf("what was served before answers %d %s", code, body)
	}
}

// TestLostController starts with an IngressController that cannot be read: nothing serves every class in its place.
func TestLostController(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		flags      []string
		implicit   bool
	}{
		{"unknown field", "kind: IngressController\nname: a\nhttpServre: {port: 1}\n", nil, false},
		{"no YAML", "kind: IngressController\nname: [\n", nil, false},
		{"a flag says where", "kind: IngressController\nname: [\n", []string{"--http", "127.0.0.1:1"}, true},
		{"none", "kind: HTTPServer\nname: [\n", nil, true},
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := newOptions()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.define(flags)
		if err := flags.Parse(append(c.flags, "--manifests", folder)); err != nil {
			t.Fatal(err)
		}
		if err := o.complete(flags, func(string) (string, bool) { return "", false }); err != nil {
			t.Fatal(err)
		}
		p, err := newPlan(o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if (len(p.implicit) > 0) != c.implicit {
			t.Errorf("%s: %d implicit controllers", c.name, len(p.implicit))
		}
	}
}

// TestCheckReadsWhatItCan leaves files that cannot be read to themselves.
func TestCheckReadsWhatItCan(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte("kind: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(folder, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/mem", filepath.Join(folder, "c.yaml")); err != nil { // reading it fails
		t.Fatal(err)
	}
	l, err := load([]string{folder})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, p := range l.locate(nil) {
		said = append(said, strings.TrimPrefix(p.String(), folder+"/"))
	}
	text := strings.Join(said, "\n")
	for _, want := range []string{"a.yaml:1: ", "b.yaml:1: it is no regular file", "c.yaml:1: the file cannot be read"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
}

// TestAControllerThatIsMendedServes: until then nothing listens in its place, whatever else cannot be read beside it.
func TestAControllerThatIsMendedServes(t *testing.T) {
	t.Parallel()
	backend := testkit.NewBackend(t, "x")
	p := prepare(t, backend.Port)
	p.cmd.Args = []string{p.cmd.Path, "serve", "--manifests", p.folder, "--api-addr", p.api}
	_, port, _ := strings.Cut(p.http, ":")
	controller := "kind: IngressController\nname: main\nwatchIngressWithoutClass: true\nhttpServer: {port: " + port + ", address: 127.0.0.1"
	p.put("controller.yaml", controller)
	p.put("broken.yaml", "kind: [\n")
	if err := os.Symlink("/proc/self/mem", filepath.Join(p.folder, "odd.yaml")); err != nil { // reading it fails
		t.Fatal(err)
	}
	p.run()
	p.await("the line is named", func() bool { return strings.Contains(p.err.String(), "controller.yaml line=4") })
	if strings.Contains(p.err.String(), "msg=listening") {
		t.Error("something listens in the place of the controller")
	}
	p.put("controller.yaml", controller+"}\n")
	p.await("it serves", func() bool { code, _ := p.ask(p.http, "slow.test", "/"); return code == 200 })
	p.ready()
}
