package store

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"sluice.dev/sluice/model"
)

// Store gathers the objects of several sources. Its methods may be called from any goroutine.
type Store struct {
	sources []string
	changed chan struct{}

	mu    sync.Mutex
	view  View
	files map[file][]*Object      // what each file holds
	keys  map[model.Key]time.Time // changed since Take, and when the first change came
}

// Batch is what changed since the one before it.
type Batch struct {
	View View
	Keys []model.Key // ordered
	Seen []time.Time // by Keys: when the first of its changes came
}

// file is a file of a source.
type file struct{ source, name string }

// New returns an empty store. When two sources have an object of the same key, the one named first has the say; one that is not
// named comes last.
func New(sources ...string) *Store {
	return &Store{sources: sources, changed: make(chan struct{}, 1), files: map[file][]*Object{}, keys: map[model.Key]time.Time{}}
}

// Replace makes objs all that the source has, in one step.
func (s *Store) Replace(source string, objs []*Object) {
	seen := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	touched := keysOf(objs)
	for o := range s.view.All() {
		if o.Source == source || len(s.view.Shadowed(o.Key)) > 0 {
			touched = append(touched, o.Key)
		}
	}
	for f := range s.files {
		if f.source == source {
			delete(s.files, f)
		}
	}
	for _, o := range objs {
		if o.File != "" {
			f := file{source, o.File}
			s.files[f] = append(s.files[f], o)
		}
	}
	s.update(change{source, seen, touched, objs}, func(*Object) bool { return true })
}

// ReplaceFile makes objs all that one file of the source has, in one step; none when the file is gone.
func (s *Store) ReplaceFile(source, name string, objs []*Object) {
	seen := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := file{source, name}
	for _, o := range objs {
		if o.File != name {
			o.File = name
		}
	}
	touched := append(keysOf(objs), keysOf(s.files[f])...)
	if s.files[f] = slices.Clip(slices.Clone(objs)); len(objs) == 0 {
		delete(s.files, f)
	}
	s.update(change{source, seen, touched, objs}, func(o *Object) bool { return o.File == name })
}

// ReplaceKind makes objs all that the source has, in no file, of a kind among the objects that pick takes, in one step. pick is called
// with the store locked.
func (s *Store) ReplaceKind(source, kind string, pick func(*Object) bool, objs []*Object) {
	seen := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	touched := keysOf(objs)
	for _, o := range s.view.kinds[kind].All() {
		if o.Source == source && pick(o) || s.view.shadowed.Len() > 0 && len(s.view.Shadowed(o.Key)) > 0 {
			touched = append(touched, o.Key)
		}
	}
	s.update(change{source, seen, touched, objs}, func(o *Object) bool { return o.File == "" && pick(o) })
}

// Apply adds or replaces objects of the source by their keys, and removes others, in one step.
func (s *Store) Apply(source string, upserts []*Object, deletes []model.Key) {
	seen := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(change{source, seen, append(keysOf(upserts), deletes...), upserts}, func(*Object) bool { return true })
}

// Changed gets a value when there is something for Take.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// View returns what there is now. It takes nothing from Take.
func (s *Store) View() View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// Take returns what there is now, and the keys of what changed since the last Take, ordered.
func (s *Store) Take() (View, []model.Key) {
	b := s.TakeBatch()
	return b.View, b.Keys
}

// TakeBatch is Take, with when the changes came.
func (s *Store) TakeBatch() Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Batch{View: s.view, Keys: make([]model.Key, 0, len(s.keys)), Seen: make([]time.Time, len(s.keys))}
	for key := range s.keys {
		b.Keys = append(b.Keys, key)
	}
	slices.SortFunc(b.Keys, CompareKeys)
	for i, key := range b.Keys {
		b.Seen[i] = s.keys[key]
	}
	s.keys = map[model.Key]time.Time{} // cleared, it would keep the room that the first batch needed
	return b
}

// change is what a source says: whose keys are touched, and which objects are there now.
type change struct {
	source  string
	seen    time.Time
	touched []model.Key
	added   []*Object
}

// update takes those objects of the source away that are gone, adds others, and decides anew who has each key touched.
func (s *Store) update(c change, gone func(*Object) bool) {
	source, touched, added := c.source, c.touched, c.added
	fresh := make(map[model.Key][]*Object, len(added))
	for _, o := range added {
		if o.Source != source { // an object that is given again may be read by others now
			o.Source = source
		}
		fresh[o.Key] = append(fresh[o.Key], o)
	}
	e, changed := s.view.edit(), false
	slices.SortFunc(touched, CompareKeys)
	for _, key := range slices.Compact(touched) {
		old, hidden := e.get(key), s.view.Shadowed(key)
		candidates := slices.DeleteFunc(slices.Concat(hidden, one(old)), func(o *Object) bool { return o.Source == source && gone(o) })
		candidates = append(candidates, fresh[key]...)
		slices.SortStableFunc(candidates, s.compare)
		if s.settle(e, key, candidates, old, hidden) {
			if changed = true; s.keys[key].IsZero() {
				s.keys[key] = c.seen
			}
		}
	}
	s.view = e.done()
	if changed {
		select {
		case s.changed <- struct{}{}:
		default: // a signal is waiting already
		}
	}
}

// settle gives the key to the first of the candidates and reports whether that changes anything.
func (s *Store) settle(e *editor, key model.Key, candidates []*Object, old *Object, hidden []*Object) bool {
	changed := !slices.EqualFunc(hidden, candidates[min(1, len(candidates)):], samePlace)
	if changed || len(hidden) > 0 {
		e.shadow(key, candidates[min(1, len(candidates)):])
	}
	if len(candidates) == 0 {
		e.set(key, nil)
		return old != nil
	}
	o := candidates[0]
	if old != nil && o != old && same(old, o) {
		moved := *o // which a view may have already
		moved.Value = old.Value
		o = &moved // so that whoever compares values by pointer sees no change
	} else if o != old {
		changed = true
	}
	e.set(key, o)
	return changed || len(hidden) > 0 && !samePlace(o, old)
}

func samePlace(a, b *Object) bool {
	return a.Source == b.Source && a.File == b.File && a.Line == b.Line
}

// compare orders candidates for a key: by source, then by file and line.
func (s *Store) compare(a, b *Object) int {
	return cmp.Or(cmp.Compare(s.rank(a.Source), s.rank(b.Source)), cmp.Compare(a.Source, b.Source), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
}

func (s *Store) rank(source string) int {
	if i := slices.Index(s.sources, source); i >= 0 {
		return i
	}
	return len(s.sources)
}

func keysOf(objs []*Object) []model.Key {
	keys := make([]model.Key, len(objs))
	for i, o := range objs {
		keys[i] = o.Key
	}
	return keys
}

func one(o *Object) []*Object {
	if o == nil {
		return nil
	}
	return []*Object{o}
}
