package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// loaded is the objects of files, read once.
type loaded struct {
	store    *store.Store
	view     store.View
	docs     map[model.Key]*document.Document
	broken   []document.Error
	problems []model.Problem // found when reading
	files    int
	cluster  bool // an API server was read too
	objects  int
}

const sourceFiles = "files"

// load reads files and folders. What is wrong in them stands in the result; the error is for what cannot be read at all.
func load(paths []string) (*loaded, error) {
	names, err := filesOf(paths)
	if err != nil {
		return nil, err
	}
	l := &loaded{docs: map[model.Key]*document.Document{}, files: len(names)}
	var objects []*store.Object
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, wrong("read the manifests: %w", err)
		}
		for doc, broken := range document.All(name, data) {
			if broken != nil {
				l.broken = append(l.broken, *broken)
				continue
			}
			if o := l.take(doc); o != nil {
				objects = append(objects, o)
			}
		}
	}
	l.store = store.New(sourceFiles, sourceCluster)
	l.store.Replace(sourceFiles, objects)
	l.view, _ = l.store.Take()
	for o := range l.view.All() {
		l.problems = append(l.problems, l.view.Problems(o.Key)...)
	}
	return l, nil
}

// take decodes one document.
func (l *loaded) take(doc *document.Document) *store.Object {
	o, problems := store.Decode(doc)
	l.objects++
	l.problems = append(l.problems, problems...)
	key := model.Key{Kind: doc.Kind, Namespace: doc.Namespace, Name: doc.Name}
	if o != nil {
		key = o.Key
	} else if len(problems) > 0 {
		key = problems[0].Origin.Key
	}
	if l.docs[key] == nil {
		l.docs[key] = doc
	}
	return o
}

// place returns where in the files a problem is; "" when it is in none.
func (l *loaded) place(o model.Origin) (file string, line int) {
	doc := l.docs[o.Key]
	if doc == nil {
		return "", 0
	}
	return doc.File, doc.LineOf(o.Field)
}

// filesOf lists the manifests that paths name, as the watching source does: files as they are, and of folders all that end like YAML
// or JSON, but hidden ones.
func filesOf(paths []string) ([]string, error) {
	var names []string
	for _, path := range paths {
		path = filepath.Clean(path)
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			err = walk(path, 0, &names)
		} else {
			names = append(names, path)
		}
		if err != nil {
			return nil, wrong("read the manifests: %w", err)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

const maxFolders = 16 // levels of folders in folders

func walk(folder string, depth int, names *[]string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		info, err := os.Stat(path) // follows links
		switch {
		case strings.HasPrefix(entry.Name(), "."), err != nil:
		case info.IsDir() && depth < maxFolders:
			if err := walk(path, depth+1, names); err != nil {
				return err
			}
		case info.Mode().IsRegular() && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path))):
			*names = append(*names, path)
		}
	}
	return nil
}

// controllersIn finds the IngressController objects of files, without reading the other objects.
func controllersIn(paths []string) ([]*model.IngressController, error) {
	names, err := filesOf(paths)
	if err != nil {
		return nil, err
	}
	var found []*model.IngressController
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, wrong("read the manifests: %w", err)
		}
		if !bytes.Contains(data, []byte(model.KindIngressController)) {
			continue
		}
		for doc, broken := range document.All(name, data) {
			if broken != nil || doc.Kind != model.KindIngressController || doc.APIVersion != "" {
				continue
			}
			if o, _ := store.Decode(doc); o != nil {
				found = append(found, o.Value.(*model.IngressController))
			}
		}
	}
	return found, nil
}

// located is a problem with its place.
type located struct {
	model.Problem
	file    string
	line    int
	cluster bool // it is about an object of an API server
}

func (p located) String() string {
	where := "settings"
	switch {
	case p.file != "":
		where = fmt.Sprintf("%s:%d", p.file, p.line)
	case p.cluster:
		where = "cluster"
	}
	text := where + " " + p.Origin.Key.String()
	if p.Origin.Key == (model.Key{}) {
		text = where
	}
	if p.Origin.Field != "" {
		text += " " + p.Origin.Field
	}
	text += ": "
	if p.Severity == model.Warning {
		text += "warning: "
	}
	text += p.Message
	if p.Mend != "" {
		text += "; " + p.Mend
	}
	return text
}

// locate finds the place of each problem, drops those said twice, and orders them by file and line.
func (l *loaded) locate(problems []model.Problem) []located {
	var all []located
	for _, b := range l.broken {
		all = append(all, located{Problem: model.Problem{Reason: "Unreadable", Message: b.Message, Severity: model.Error}, file: b.File, line: b.Line})
	}
	said := map[string]bool{}
	for _, p := range problems {
		if key := p.Origin.String() + "\x00" + p.Reason + "\x00" + p.Message; !said[key] {
			said[key] = true
			file, line := l.place(p.Origin)
			o := l.view.Object(p.Origin.Key)
			all = append(all, located{p, file, line, file == "" && o != nil && o.Source == sourceCluster})
		}
	}
	slices.SortStableFunc(all, func(a, b located) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.Origin.String(), b.Origin.String()))
	})
	return all
}
