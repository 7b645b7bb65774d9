package dir

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// KindFile is the kind of the object that carries the problems of a file as such.
const KindFile = "File"

const maxFile = 64 << 20 // bytes; reading more would cost memory before it is refused

// file is what one file has given.
type file struct {
	path     string
	seen     signature
	objects  []*store.Object
	problems []model.Problem
	parts    map[partKey]parsed // of a large file: what became of the parts that gave nothing but objects
}

// loadAll reads files side by side, in the order of paths. A file that changed meanwhile is nil.
func loadAll(paths []string, waiting map[string]*wait, known map[string]*file) []*file {
	loaded := make([]*file, len(paths))
	tickets := make(chan struct{}, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for i, path := range paths {
		seen, before := waiting[path].seen, known[path]
		tickets <- struct{}{}
		group.Go(func() {
			defer func() { <-tickets }()
			f := load(path, seen, before)
			if signatureOf(path) == seen {
				loaded[i] = f
			}
		})
	}
	group.Wait()
	return loaded
}

// load reads a file. One that has an unreadable part keeps what it had before; an object that cannot be decoded keeps what
// that object was.
func load(path string, seen signature, before *file) *file {
	f := &file{path: path, seen: seen}
	if !seen.exists {
		return f
	}
	switch {
	case !seen.plain:
		return f.keep(before, "it is no regular file")
	case seen.size > maxFile:
		return f.keep(before, fmt.Sprintf("the file has %d MiB, more than %d: split it", seen.size>>20, maxFile>>20))
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return f.keep(before, fmt.Sprintf("the file cannot be read: %v", err))
	}
	had := map[model.Key]*store.Object{}
	if before != nil {
		for _, o := range before.objects {
			had[o.Key] = o
		}
	}
	p := newParts(f, before, len(data))
	broken := false
	for doc, problem := range document.Some(path, data, p.skip()) {
		if problem != nil {
			broken = true
			f.complain(problem.Line, problem.Message)
			continue
		}
		f.add(doc, had)
	}
	p.end()
	if broken && before != nil {
		f.objects = before.objects
	}
	return f
}

// all is what the store gets: the objects, and the problems of the file as such.
func (f *file) all() []*store.Object {
	if len(f.problems) == 0 {
		return f.objects
	}
	own := store.NewObject(KindFile, "", f.path, nil)
	own.File, own.Line, own.Problems = f.path, 1, f.problems
	return append(f.objects[:len(f.objects):len(f.objects)], own)
}

func (f *file) add(doc *document.Document, had map[model.Key]*store.Object) {
	o, problems := store.Decode(doc)
	if o == nil {
		for _, p := range problems {
			if last := had[p.Origin.Key]; last != nil {
				kept := *last
				kept.Problems = problems
				f.objects = append(f.objects, &kept)
				return
			}
		}
		f.problems = append(f.problems, problems...)
		return
	}
	f.objects = append(f.objects, o)
}

func (f *file) keep(before *file, message string) *file {
	f.complain(0, message)
	if before != nil {
		f.objects, f.parts = before.objects, before.parts
	}
	return f
}

func (f *file) complain(line int, message string) {
	p := model.Problem{Origin: model.Origin{Key: model.Key{Kind: KindFile, Name: f.path}}, Reason: "Unreadable", Message: message, Severity: model.Error}
	if line > 0 {
		p.Origin.Field = fmt.Sprintf("line %d", line)
	}
	f.problems = append(f.problems, p)
}
