package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
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
	lost     bool            // an IngressController cannot be read
	problems []model.Problem // found when reading
	files    int
	objects  int
	cluster  bool // an API server was read too

	apiServers []netip.AddrPort // where that is
}

const sourceFiles = "files"

// load reads files and folders. What is wrong in them stands in the result; the error is for what cannot be read at all.
func load(paths []string) (*loaded, error) {
	names, unread, err := filesOf(paths)
	if err != nil {
		return nil, err
	}
	l := &loaded{docs: map[model.Key]*document.Document{}, files: len(names), broken: unread}
	var objects []*store.Object
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			l.broken = append(l.broken, document.Error{File: name, Line: 1, Message: fmt.Sprintf("the file cannot be read: %v", reasonOf(err))})
			continue
		}
		for doc, broken := range document.All(name, data) {
			if broken != nil {
				l.broken = append(l.broken, *broken)
				l.lost = l.lost || mayBeController(data)
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
	} else if l.lost = l.lost || isController(doc); len(problems) > 0 {
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
// or JSON, but hidden ones. The errors say which of these are no files that can be read.
func filesOf(paths []string) (names []string, unread []document.Error, err error) {
	w := walk{}
	for _, path := range paths {
		path = filepath.Clean(path)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, nil, wrong("read the manifests: %w", err)
		case info.IsDir():
			w.folder(path, 0)
		default:
			w.names = append(w.names, path)
		}
	}
	slices.Sort(w.names)
	return slices.Compact(w.names), w.unread, nil
}

const maxFolders = 16 // levels of folders in folders

// walk gathers the manifests of folders.
type walk struct {
	names  []string
	unread []document.Error
}

func (w *walk) folder(path string, depth int) {
	entries, err := os.ReadDir(path)
	if err != nil {
		w.unread = append(w.unread, document.Error{File: path, Line: 1, Message: fmt.Sprintf("the folder cannot be read: %v", reasonOf(err))})
	}
	for _, entry := range entries {
		path := filepath.Join(path, entry.Name())
		info, err := os.Stat(path) // follows links
		manifest := slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(path)))
		switch {
		case strings.HasPrefix(entry.Name(), "."), err != nil:
		case info.IsDir() && depth < maxFolders:
			w.folder(path, depth+1)
		case manifest && info.Mode().IsRegular():
			w.names = append(w.names, path)
		case manifest && !info.IsDir():
			w.unread = append(w.unread, document.Error{File: path, Line: 1, Message: "it is no regular file"})
		}
	}
}

// reasonOf is why a file cannot be read, without its name.
func reasonOf(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// controllers are the IngressController objects of files.
type controllers struct {
	read []*model.IngressController
	lost []string // what is wrong with those that cannot be read, with the place
}

// controllersIn finds the IngressController objects of files, without reading the other objects. What else is wrong with the files is told
// when they are served.
func controllersIn(paths []string) (*controllers, error) {
	names, _, err := filesOf(paths)
	if err != nil {
		return nil, err
	}
	found := &controllers{}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
			continue
		}
		if data, err := os.ReadFile(name); err == nil && mayBeController(data) {
			found.take(name, data)
		}
	}
	return found, nil
}

func (c *controllers) take(name string, data []byte) {
	for doc, broken := range document.All(name, data) {
		switch {
		case broken != nil:
			c.lost = append(c.lost, fmt.Sprintf("%s:%d: %s", broken.File, broken.Line, broken.Message))
		case !isController(doc):
		default:
			o, problems := store.Decode(doc)
			if o != nil {
				c.read = append(c.read, o.Value.(*model.IngressController))
			}
			for _, p := range problems {
				if o == nil && p.Severity == model.Error {
					c.lost = append(c.lost, located{Problem: p, file: doc.File, line: doc.LineOf(p.Origin.Field)}.String())
				}
			}
		}
	}
}

func isController(doc *document.Document) bool {
	return doc.Kind == model.KindIngressController && doc.APIVersion == ""
}

// mayBeController reports whether a text that cannot be read may be an IngressController.
func mayBeController(data []byte) bool {
	return bytes.Contains(data, []byte(model.KindIngressController))
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
	text := where
	if key := p.Origin.Key; key.Name != "" {
		text = strings.TrimSuffix(text+" "+key.Kind, " ") + " " + key.Path()
	} else if key.Kind != "" {
		text += " " + key.Kind
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
