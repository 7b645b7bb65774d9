package native_test

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"sluice.dev/sluice/control/translate/native"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// FuzzTranslate: whatever a file holds, its objects are decoded, validated, translated and dumped without a panic, and every
// problem says what is wrong with which object.
func FuzzTranslate(f *testing.F) {
	for _, pattern := range []string{"testdata/*.txtar", "../../../model/testdata/problems/*.txtar"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(archive.Files[0].Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, _ := document.Parse("in.yaml", data)
		var servers []*model.HTTPServer
		var pipelines []*model.Pipeline
		var problems []model.Problem
		for _, d := range docs {
			object, found := model.Decode(d)
			problems = append(problems, found...)
			switch object := object.(type) {
			case *model.HTTPServer:
				servers = append(servers, object)
			case *model.Pipeline:
				pipelines = append(pipelines, object)
			case *model.IngressController:
				problems = append(problems, object.Validate()...)
			}
		}
		config, found := native.Translate(servers, pipelines, services)
		for _, p := range append(problems, found...) {
			if p.Message == "" || p.Reason == "" {
				t.Errorf("%+v", p)
			}
		}
		if _, errs := document.Parse("dump.yaml", model.Dump(config)); errs != nil {
			t.Errorf("the dump cannot be read: %v", errs)
		}
	})
}
