package ingress_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

var update = flag.Bool("update", false, "rewrite config.yaml and status.txt of the cases")

// settings is options.yaml of a case. Without one, the implicit controller sluice serves every class on :80 and :443, and the
// objects are those of files.
type settings struct {
	API             bool     `json:"api"` // the objects come from an API server
	Classes         []string `json:"classes"`
	ByController    bool     `json:"byController"` // no class is named: those of our controller name
	WithoutClass    bool     `json:"withoutClass"`
	Namespaces      []string `json:"namespaces"`
	HTTPS           string   `json:"https"` // off
	DefaultBackend  string   `json:"defaultBackend"`
	DefaultCert     string   `json:"defaultCertificate"`
	PublicHTTPSPort int      `json:"publicHTTPSPort"`
	ExternalNames   bool     `json:"externalNames"` // are allowed
	APIServers      []string `json:"apiServers"`    // that are known beforehand
}

func (s *settings) options() translate.Options {
	c := &model.IngressController{
		Meta: model.Meta{Name: "sluice"}, Classes: s.Classes, Any: len(s.Classes) == 0 && !s.ByController, IngressClass: "sluice",
		Namespaces: s.Namespaces, DefaultBackend: s.DefaultBackend, DefaultCertificate: s.DefaultCert, WatchIngressWithoutClass: s.WithoutClass,
		HTTPServer: &model.HTTPServer{Port: 80},
	}
	if s.HTTPS != "off" {
		c.HTTPSServer = &model.HTTPServer{Port: 443, HTTPS: true}
	}
	c.SetDefaults()
	if s.ByController {
		c.IngressClass = ""
	}
	c.Origin = model.Origin{Key: model.Key{Kind: model.KindIngressController, Name: c.Name}}
	c.HTTPServer.Origin = c.Origin
	c.AllowExternalNames = s.ExternalNames
	o := translate.Options{Controllers: []*model.IngressController{c}, PublicHTTPSPort: s.PublicHTTPSPort}
	for _, text := range s.APIServers {
		o.APIServers = append(o.APIServers, netip.MustParseAddrPort(text))
	}
	return o
}

// testCase is one txtar file: in.yaml, perhaps options.yaml and requests.txt, then what must come of it.
type testCase struct {
	archive  *txtar.Archive
	settings settings
	objects  []*store.Object
	notes    []model.Problem // of documents that are no objects
}

func file(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

var pair = regexp.MustCompile(`\$(crt|key)\(([a-z-]+)\)`)

// expand puts the base64 of a certificate or key in the place of $crt(name) and $key(name).
func expand(t testing.TB, text []byte) []byte {
	return pair.ReplaceAllFunc(text, func(match []byte) []byte {
		parts := pair.FindSubmatch(match)
		raw, err := os.ReadFile(fmt.Sprintf("testdata/pairs/%s.%s", parts[2], parts[1]))
		if err != nil {
			t.Fatal(err)
		}
		return []byte(base64.StdEncoding.EncodeToString(raw))
	})
}

func decode(t testing.TB, text []byte) (objects []*store.Object, notes []model.Problem) {
	t.Helper()
	docs, errs := document.Parse("in.yaml", expand(t, text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, doc := range docs {
		o, problems := store.Decode(doc)
		if o != nil {
			objects = append(objects, o)
		} else {
			notes = append(notes, problems...)
		}
	}
	return objects, notes
}

func load(t testing.TB, name string) *testCase {
	t.Helper()
	archive, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	c := &testCase{archive: archive}
	if text := file(archive, "options.yaml"); text != nil {
		docs, errs := document.Parse("options.yaml", text)
		if len(errs) > 0 || len(docs) != 1 {
			t.Fatal(errs)
		}
		if errs := docs[0].Decode(&c.settings); len(errs) > 0 {
			t.Fatal(errs)
		}
	}
	c.objects, c.notes = decode(t, file(archive, "in.yaml"))
	if c.settings.API {
		for _, o := range c.objects {
			o.File = ""
		}
	}
	return c
}

func viewOf(objects []*store.Object) store.View {
	s := store.New("test")
	s.Replace("test", objects)
	view, _ := s.Take()
	return view
}

// text is the objects as text, to see whether they were changed.
func text(t testing.TB, objects []*store.Object) string {
	t.Helper()
	var all []any
	for _, o := range objects {
		all = append(all, o.Key, o.Value)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func describe(r *status.Report, notes []model.Problem) []byte {
	var b bytes.Buffer
	for e := range r.All() {
		fmt.Fprintf(&b, "%s:", e.Key)
		if len(e.Owners) > 0 {
			fmt.Fprintf(&b, " served by %s", strings.Join(e.Owners, ", "))
		}
		for _, c := range e.Conditions {
			if c.Holds {
				fmt.Fprintf(&b, " · %s", c.Type)
			} else {
				fmt.Fprintf(&b, " · not %s (%s)", c.Type, c.Reason)
			}
		}
		b.WriteByte('\n')
		for _, p := range e.Problems {
			b.WriteString("  " + problemLine(p))
		}
	}
	for _, p := range notes {
		b.WriteString("note " + p.Origin.Key.String() + " " + problemLine(p))
	}
	return b.Bytes()
}

func problemLine(p model.Problem) string {
	line := fmt.Sprintf("%s %s %s: %s", p.Severity, p.Reason, p.Origin.Field, p.Message)
	if p.Mend != "" {
		line += "; " + p.Mend
	}
	return line + "\n"
}

// TestCases holds what comes of testdata/*/*.txtar against its golden parts; -update rewrites them.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, name := range files {
		feature, short := filepath.Base(filepath.Dir(name)), strings.TrimSuffix(filepath.Base(name), ".txtar")
		if feature != "field" { // those have tests of their own
			t.Run(feature+"/"+short, func(t *testing.T) { runCase(t, name) })
		}
	}
}

func runCase(t *testing.T, name string) {
	t.Helper()
	c := load(t, name)
	options := c.settings.options()
	before := text(t, c.objects)
	view := viewOf(c.objects)
	config, report := translate.Translate(view, options)
	if text(t, c.objects) != before {
		t.Error("the input was changed")
	}
	dumped, said := model.Dump(config), describe(report, c.notes)
	random := rand.New(rand.NewPCG(1, 1))
	for range 5 {
		random.Shuffle(len(c.objects), func(i, j int) { c.objects[i], c.objects[j] = c.objects[j], c.objects[i] })
		again, againReport := translate.Translate(viewOf(c.objects), options)
		if diff := cmp.Diff(string(dumped), string(model.Dump(again))); diff != "" {
			t.Fatalf("the config depends on the order of the objects:\n%s", diff)
		}
		if diff := cmp.Diff(string(said), string(describe(againReport, c.notes))); diff != "" {
			t.Fatalf("the report depends on the order of the objects:\n%s", diff)
		}
	}
	checkConfig(t, config, dumped)
	checkRequests(t, config, string(file(c.archive, "requests.txt")))
	golden := []txtar.File{{Name: "config.yaml", Data: dumped}, {Name: "status.txt", Data: said}}
	if *update {
		c.archive.Files = slices.DeleteFunc(c.archive.Files, func(f txtar.File) bool { return f.Name == "config.yaml" || f.Name == "status.txt" })
		c.archive.Files = append(c.archive.Files, golden...)
		if err := os.WriteFile(name, txtar.Format(c.archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, want := range golden {
		if diff := cmp.Diff(string(file(c.archive, want.Name)), string(want.Data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Name, diff)
		}
	}
}
