package native_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"sluice.dev/sluice/control/translate/native"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

// objects are those of one case, and what reading them said.
type objects struct {
	servers   []*model.HTTPServer
	pipelines []*model.Pipeline
	problems  []model.Problem
}

func read(t testing.TB, text []byte) (o objects) {
	docs, errs := document.Parse("in.yaml", text)
	if errs != nil {
		t.Fatal(errs)
	}
	for _, d := range docs {
		object, problems := model.Decode(d)
		o.problems = append(o.problems, problems...)
		if slices.ContainsFunc(problems, func(p model.Problem) bool { return p.Severity == model.Error }) {
			continue
		}
		switch object := object.(type) {
		case *model.HTTPServer:
			o.servers = append(o.servers, object)
		case *model.Pipeline:
			o.pipelines = append(o.pipelines, object)
		}
	}
	return o
}

// services is a cluster that has every Service but those named missing.
func services(service string, balance model.LoadBalance, at model.Origin) (string, []model.Problem) {
	upstream := service
	if balance != (model.LoadBalance{}) {
		upstream += "?" + balance.Policy
	}
	if !strings.Contains(service, "missing") {
		return upstream, nil
	}
	return upstream, []model.Problem{{Origin: at, Reason: "ServiceMissing", Message: "there is no Service " + service, Mend: "make it", Severity: model.Error}}
}

func (o objects) translate() (config, status []byte, c *model.Config) {
	c, problems := native.Translate(o.servers, o.pipelines, services)
	var lines []string
	for _, p := range append(slices.Clone(o.problems), problems...) {
		lines = append(lines, p.Severity.String()+" "+p.Reason+" "+p.String()+"\n")
	}
	slices.Sort(lines)
	return model.Dump(c), []byte(strings.Join(lines, "")), c
}

// TestCases holds what comes of testdata/*.txtar against its golden parts; -update rewrites them.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			archive := txtar.Parse(raw)
			if len(archive.Files) == 0 || archive.Files[0].Name != "in.yaml" {
				t.Fatal("a case begins with in.yaml")
			}
			in := read(t, archive.Files[0].Data)
			before, _ := json.Marshal([]any{in.servers, in.pipelines})
			config, status, c := in.translate()
			if after, _ := json.Marshal([]any{in.servers, in.pipelines}); string(before) != string(after) {
				t.Error("the input was changed")
			}
			checkOutput(t, c, config)
			again, _, _ := in.translate()
			slices.Reverse(in.servers)
			slices.Reverse(in.pipelines)
			reversed, reversedStatus, _ := in.translate()
			if string(again) != string(config) || string(reversed) != string(config) || string(reversedStatus) != string(status) {
				t.Error("the result depends on more than the objects, such as their order")
			}
			golden := []txtar.File{{Name: "config.yaml", Data: config}, {Name: "status.txt", Data: status}}
			if *update {
				archive.Files = append(archive.Files[:1], golden...)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(&txtar.Archive{Files: archive.Files[1:]})), string(txtar.Format(&txtar.Archive{Files: golden}))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// checkOutput checks what must hold for every Config: it is one that a user could have written, and all that is referred to exists.
func checkOutput(t *testing.T, c *model.Config, dumped []byte) {
	t.Helper()
	docs, errs := document.Parse("config.yaml", dumped)
	if errs != nil {
		t.Fatal(errs)
	}
	for _, d := range docs {
		switch d.Kind {
		case "HTTPServer":
			if errs := d.Decode(new(model.HTTPServer)); errs != nil {
				t.Error(errs)
			}
		case "Pipeline":
			if errs := d.Decode(new(model.Pipeline)); errs != nil {
				t.Error(errs)
			}
		}
	}
	for _, s := range c.Servers {
		if c.RuleSets[s.RuleSet] == nil || (c.TLSSets[s.TLSSet] == nil) == s.HTTPS {
			t.Errorf("server %s refers to %q and %q", s.Name, s.RuleSet, s.TLSSet)
		}
		if s.KeyBase64 != "" || s.Keys != nil || s.Rules != nil {
			t.Errorf("server %s still has keys or rules", s.Name)
		}
	}
	for name, p := range c.Pipelines.All() {
		for _, f := range p.Filters {
			if f.Proxy == nil {
				continue
			}
			for _, pool := range f.Proxy.Pools {
				if pool != nil && (pool.Service == "" || pool.Servers != nil || pool.LoadBalance != nil) {
					t.Errorf("pool of %s: %+v", name, pool)
				}
			}
		}
	}
	for _, set := range c.TLSSets {
		for host, e := range set.Entries.All() {
			for _, cert := range e.Certificates {
				if _, found := c.Certificates.Get(cert); !found {
					t.Errorf("%s: no certificate %s", host, cert)
				}
			}
		}
	}
}
