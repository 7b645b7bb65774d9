package model_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

type validator interface{ Validate() []model.Problem }

// problemsOf reads a file as sluice check does: every problem with its line, kind, name and field.
func problemsOf(file string, text []byte) (lines []string) {
	docs, errs := document.Parse(file, text)
	for _, e := range errs {
		lines = append(lines, e.Error())
	}
	for _, d := range docs {
		object, problems := model.Decode(d)
		if v, ok := object.(validator); ok {
			problems = append(problems, v.Validate()...)
		}
		for _, p := range problems {
			line := fmt.Sprintf("%s:%d %s", file, d.LineOf(p.Origin.Field), p)
			if p.Severity == model.Warning {
				line += " (warning)"
			}
			if !slices.Contains(lines, line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// TestProblems holds what is said of bad input against testdata/problems; -update rewrites it.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/problems/*.txtar")
	if err != nil || len(files) < 40 {
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
			got := strings.Join(problemsOf("in.yaml", archive.Files[0].Data), "\n")
			if got != "" {
				got += "\n"
			}
			if *update {
				archive.Files = append(archive.Files[:1], txtar.File{Name: "problems.txt", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) != 2 {
				t.Fatal("no problems.txt; run with -update")
			}
			if diff := cmp.Diff(string(archive.Files[1].Data), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
