package dir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"sluice.dev/sluice/control/store"
)

const (
	rest   = 50 * time.Millisecond // a file that has not changed for so long is whole
	rescan = 5 * time.Second       // all paths are looked at again, in case the system told of a change too late or not at all
)

// Settings of a Source.
type Settings struct {
	Name  string   // of the source in the store
	Paths []string // files and folders; those that do not exist yet are waited for
	Store *store.Store
	Log   *slog.Logger
}

// Source reads manifests.
type Source struct {
	settings Settings
	synced   chan struct{}
	first    bool // the first full read is under way

	files   map[string]*file // that have been read, by path
	waiting map[string]*wait // that have changed and must rest
	watched map[string]bool // folders that the system tells of
	gone    map[string]bool // folders of Paths that have vanished
	watcher *fsnotify.Watcher
}

// wait is a file that changed lately.
type wait struct {
	seen  signature
	since time.Time
}

// New makes a Source; Run starts it.
func New(settings Settings) (*Source, error) {
	if len(settings.Paths) == 0 {
		return nil, errors.New("no manifest path is given")
	}
	clean := make([]string, 0, len(settings.Paths))
	for _, p := range settings.Paths {
		clean = append(clean, filepath.Clean(p))
	}
	settings.Paths = clean
	return &Source{
		settings: settings, synced: make(chan struct{}), first: true,
		files: map[string]*file{}, waiting: map[string]*wait{}, watched: map[string]bool{}, gone: map[string]bool{},
	}, nil
}

// Synced is closed when everything that was there at the start has been read.
func (s *Source) Synced() <-chan struct{} { return s.synced }

// Run reads and watches until the context ends. Without the system's help it still sees every change, a few seconds late.
func (s *Source) Run(ctx context.Context) error {
	var err error
	if s.watcher, err = fsnotify.NewWatcher(); err != nil {
		s.settings.Log.Warn("files are looked at every few seconds only", "error", err)
		s.watcher = &fsnotify.Watcher{}
	} else {
		defer s.watcher.Close()
	}
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	s.scan()
	for {
		s.settle()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.scan()
		case <-s.due():
		case event, open := <-s.watcher.Events:
			if open {
				s.notice(event)
				s.drain()
			}
		case err, open := <-s.watcher.Errors:
			if open {
				s.settings.Log.Warn("watching files", "error", err)
				s.scan() // the queue may have overflowed
			}
		}
	}
}

// due fires when the next waiting file has rested.
func (s *Source) due() <-chan time.Time {
	if len(s.waiting) == 0 {
		return nil
	}
	next := time.Now().Add(rest)
	for _, w := range s.waiting {
		if at := w.since.Add(rest); at.Before(next) {
			next = at
		}
	}
	return time.After(time.Until(next))
}

// drain takes the events that are there already, so that a thousand changed files are one batch.
func (s *Source) drain() {
	for {
		select {
		case event, open := <-s.watcher.Events:
			if !open {
				return
			}
			s.notice(event)
		default:
			return
		}
	}
}

// notice marks what an event speaks of.
func (s *Source) notice(event fsnotify.Event) {
	name := filepath.Clean(event.Name)
	if s.isManifest(name) && (event.Has(fsnotify.Write) || event.Has(fsnotify.Chmod)) {
		s.look(name, true)
		return
	}
	s.scan() // names came or went, or a link like ..data points elsewhere
	if s.isManifest(name) {
		s.look(name, true)
	}
}

// look compares a file with what was read of it, and makes it wait when it differs. touched says that it changed just now even if
// it looks the same.
func (s *Source) look(path string, touched bool) {
	now := signatureOf(path)
	known := s.files[path]
	if w := s.waiting[path]; w != nil {
		if touched || w.seen != now {
			w.seen, w.since = now, time.Now()
		}
		return
	}
	if known != nil && known.seen == now && !touched || known == nil && !now.exists {
		return
	}
	since := time.Now()
	if s.first { // what lay there before we came has rested already, unless it changed just now
		since = now.changed
	}
	s.waiting[path] = &wait{now, since}
}

// settle reads the files that have rested.
func (s *Source) settle() {
	var ready []string
	for path, w := range s.waiting {
		if time.Since(w.since) < rest {
			continue
		}
		if now := signatureOf(path); now != w.seen {
			w.seen, w.since = now, time.Now()
			continue
		}
		ready = append(ready, path)
	}
	if len(ready) > 0 {
		slices.Sort(ready)
		s.read(ready)
	}
	if s.first && len(s.waiting) == 0 {
		s.first = false
		close(s.synced)
	}
}

// read loads the files and hands what they have to the store.
func (s *Source) read(paths []string) {
	for i, f := range loadAll(paths, s.waiting, s.files) {
		path := paths[i]
		if f == nil { // it changed while it was read
			s.waiting[path].since = time.Now()
			continue
		}
		delete(s.waiting, path)
		s.files[path] = f
		if !f.seen.exists {
			delete(s.files, path)
		}
		s.settings.Store.ReplaceFile(s.settings.Name, path, f.all())
	}
}

// scan looks at every path: which files there are, which have changed, which are gone.
func (s *Source) scan() {
	found := map[string]bool{}
	for _, path := range s.settings.Paths {
		s.scanPath(path, found)
	}
	for path := range found {
		s.look(path, false)
	}
	for _, path := range slices.Collect(maps.Keys(s.files)) {
		if !found[path] && !s.kept(path) {
			s.look(path, false)
		}
	}
}

// kept reports whether a file is under a folder of Paths that has vanished altogether: a volume that is away. What it had stays.
func (s *Source) kept(path string) bool {
	for root := range s.gone {
		if within(root, path) {
			return true
		}
	}
	return false
}

func (s *Source) vanished(root string) {
	if !s.gone[root] {
		s.gone[root] = true
		s.settings.Log.Warn("a folder of manifests is gone; what it had is kept until it is back", "path", root)
	}
}

func (s *Source) String() string { return fmt.Sprintf("files %v", s.settings.Paths) }
