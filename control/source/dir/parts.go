package dir

import (
	"crypto/sha256"
	"slices"

	"sluice.dev/sluice/control/store"
)

// largeFile is the size from which on the parts of a file are remembered, so that a change costs what changed and not the whole.
const largeFile = 32 << 10

type partKey [16]byte

// parsed is what became of a part of a file.
type parsed struct {
	line    int // where it began
	objects []*store.Object
}

// parts remembers, while a file is read, what each part becomes, and takes what is known from the last reading.
type parts struct {
	file  *file
	known map[partKey]parsed
	used  map[partKey]bool
	at    partKey // of the part that is read
	line  int
	first int // of its objects
	fault int // problems there were before it
	open  bool
}

func newParts(f, before *file, size int) *parts {
	p := &parts{file: f}
	if size < largeFile {
		return p
	}
	f.parts, p.used = map[partKey]parsed{}, map[partKey]bool{}
	if before != nil {
		p.known = before.parts
	}
	return p
}

// skip is for document.Some; nil for a file that is not large.
func (p *parts) skip() func(text []byte, line int) bool {
	if p.file.parts == nil {
		return nil
	}
	return func(text []byte, line int) bool {
		p.end()
		sum := sha256.Sum256(text)
		p.at, p.line, p.first, p.fault, p.open = partKey(sum[:16]), line, len(p.file.objects), len(p.file.problems), true
		last, found := p.known[p.at]
		if !found {
			return false
		}
		p.file.objects = append(p.file.objects, p.moved(last)...)
		return true
	}
}

// moved are the objects of a part that begins on the line that is read now. One that stays where it is, is the same.
func (p *parts) moved(last parsed) []*store.Object {
	if last.line == p.line && !p.used[p.at] {
		return last.objects
	}
	objects := slices.Clone(last.objects)
	for i, o := range objects {
		moved := *o
		moved.Line += p.line - last.line
		objects[i] = &moved
	}
	return objects
}

// end remembers the part that was read, if nothing was wrong with it.
func (p *parts) end() {
	if !p.open {
		return
	}
	p.open = false
	p.used[p.at] = true
	if len(p.file.problems) == p.fault && !slices.ContainsFunc(p.file.objects[p.first:], func(o *store.Object) bool { return len(o.Problems) > 0 }) {
		p.file.parts[p.at] = parsed{p.line, slices.Clone(p.file.objects[p.first:])}
	}
}
