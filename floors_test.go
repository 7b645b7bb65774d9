package sluice

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "sluice.dev/sluice"

// floors gives each package its floor and its place in the floor: a package imports lower floors, and, in its own floor,
// only packages of its own group that were named before it. The groups are those of docs/architecture.md.
var floors = []struct {
	floor    int
	group    string
	packages []string // in order
}{
	{-1, "canon", []string{"canon"}},
	{-1, "model parts", []string{"model/persist", "model/document"}},
	{0, "model", []string{"model"}},
	{0, "telemetry", []string{"telemetry"}},
	{0, "proxy", []string{"proxy/message", "proxy/balance"}},
	{1, "proxy/wire", []string{"proxy/wire/h1", "proxy/wire/h2"}},
	{1, "proxy", []string{"proxy/certs", "proxy/route", "proxy/filter"}},
	{2, "proxy", []string{"proxy/upstream"}},
	{3, "proxy", []string{"proxy/filters"}},
	{4, "proxy", []string{"proxy/engine"}},
	{1, "control", []string{"control/store", "control/status", "control/refs"}},
	{2, "control/translate", []string{"control/translate/native", "control/translate/ingress", "control/translate"}},
	{2, "control/source", []string{"control/source/dir", "control/source/kube"}},
	{4, "control", []string{"control/loop"}},
	{5, "admin", []string{"admin"}},
	{5, "internal/testkit", []string{"internal/testkit", "internal/e2e"}},
	{6, "cmd", []string{"cmd/sluice"}},
	{6, "internal/demo", []string{"internal/demo"}},
	{6, "bench", []string{"bench"}},
	{7, "root", []string{""}},
}

// allowedIn says where third parties may be imported; a module that is not listed may be imported by anyone above floor 0
// that depguard lets.
var allowedIn = map[string][]string{
	"k8s.io/":                             {"control/store", "control/refs", "control/translate", "control/source/kube", "internal/testkit", "bench"},
	"github.com/prometheus/client_golang": {"telemetry", "admin"},
	"github.com/spf13/":                   {"cmd/"},
	"go.yaml.in/":                         {"model/document", "model"},
	"sigs.k8s.io/":                        {"model/document", "model", "control/store"},
	"github.com/fsnotify/":                {"control/source/dir"},
	"golang.org/x/sys":                    {"proxy/"},
	"golang.org/x/net":                    {"proxy/wire/h2", "proxy/upstream"},
}

type listed struct {
	ImportPath string
	Imports    []string
}

// TestFloors keeps the layers: proxy never imports control, control never imports proxy, and nothing imports upwards.
func TestFloors(t *testing.T) {
	type place struct {
		floor, order int
		group        string
	}
	places := map[string]place{}
	for _, f := range floors {
		for i, p := range f.packages {
			places[p] = place{f.floor, i, f.group}
		}
	}
	for _, p := range list(t) {
		name := strip(p.ImportPath)
		at, known := places[name]
		if !known {
			t.Errorf("package %s has no floor: add it to floors in floors_test.go and to docs/architecture.md", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !strings.HasPrefix(imported, module) {
				checkThirdParty(t, name, imported)
				continue
			}
			to, known := places[strip(imported)]
			switch {
			case !known:
			case to.floor < at.floor:
			case to.floor == at.floor && to.group == at.group && to.order < at.order:
			default:
				t.Errorf("%s (floor %d) imports %s (floor %d): only lower floors, or earlier packages of its own group", name, at.floor, strip(imported), to.floor)
			}
			for _, half := range [][2]string{{"proxy/", "control/"}, {"control/", "proxy/"}} {
				if strings.HasPrefix(name, half[0]) && strings.HasPrefix(strip(imported), half[1]) {
					t.Errorf("%s imports %s: the two halves meet only in model", name, strip(imported))
				}
			}
		}
	}
}

func checkThirdParty(t *testing.T, name, imported string) {
	t.Helper()
	for prefix, allowed := range allowedIn {
		if !strings.HasPrefix(imported, prefix) {
			continue
		}
		for _, a := range allowed {
			if strings.HasPrefix(name, a) {
				return
			}
		}
		t.Errorf("%s imports %s, which only %v may", name, imported, allowed)
	}
}

func strip(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }

func list(t *testing.T) []listed {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %s", exit.Stderr)
		}
		t.Fatal(err)
	}
	var all []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
