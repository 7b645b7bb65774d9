package main

import (
	"fmt"
	"os"

	"sluice.dev/sluice/control/source/dir"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// told is a problem and whose entry tells it: that of its object, or of the file whose object cannot be read.
type told struct {
	model.Problem
	by model.Key
}

// Files are read again to find the line of a field; large ones and many at once would keep the next change waiting.
const (
	maxLookBytes = 256 << 10
	maxLooks     = 20
)

// places finds where in the files problems are. One serves one batch.
type places struct {
	view store.View
	docs map[string][]*document.Document
}

// of returns file and line of a problem; the line is that of its object where the field's is too much to ask. It returns "" for what is in no
// file.
func (p *places) of(t told) (file string, line int) {
	if o := p.view.Object(t.Origin.Key); o != nil {
		file, line = o.File, o.Line
	} else if t.by.Kind == dir.KindFile {
		file, line = t.by.Name, 1
	}
	if file == "" {
		return "", 0
	}
	if t.Origin.Key.Kind == dir.KindFile {
		_, _ = fmt.Sscanf(t.Origin.Field, "line %d", &line) // other fields leave it
		return file, line
	}
	var found *document.Document
	for _, doc := range p.read(file) {
		if doc.Kind == t.Origin.Key.Kind && doc.Name == t.Origin.Key.Name && (found == nil || doc.Line == line) {
			found = doc
		}
	}
	if found == nil {
		return file, line
	}
	return file, found.LineOf(t.Origin.Field)
}

// read returns the documents of a file as it is now; none when it is large, or many were read.
func (p *places) read(file string) []*document.Document {
	docs, found := p.docs[file]
	if found || len(p.docs) >= maxLooks {
		return docs
	}
	if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Size() <= maxLookBytes {
		if data, err := os.ReadFile(file); err == nil {
			docs, _ = document.Parse(file, data)
		}
	}
	if p.docs == nil {
		p.docs = map[string][]*document.Document{}
	}
	p.docs[file] = docs
	return docs
}
