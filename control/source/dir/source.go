package dir

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"sluice.dev/sluice/control/store"
)

const (
	rest     = 50 * time.Millisecond // a file that has not changed for so long is whole
	rescan   = 5 * time.Second       // all paths are looked at again, in case the system told of a change too late or not at all
	patience = 3 * time.Second       // a file that never rests keeps the first full read waiting for so long
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
	begun    time.Time
	first    bool // the first full read is under way
	stale    bool // the paths must be looked at again

	files   map[string]*file // that have been read, by path
	waiting map[string]*wait // that have changed and must rest
	next    time.Time        // no waiting file has rested before
	watched map[string]bool  // folders that the system tells of; false: it cannot
	links   map[string]bool  // files that links among the manifests lead to
	gone    map[string]bool  // paths of the settings that are not there
	unread  map[string]bool  // folders that cannot be read
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
		defer func() { _ = s.watcher.Close() }() // nobody listens any more
	}
	tick := time.NewTicker(rescan)
	defer tick.Stop()
	s.begun = time.Now()
	s.scan()
	for {
		s.settle()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			s.stale = true
		case <-s.due():
		case event, open := <-s.watcher.Events:
			if open {
				s.notice(event)
				s.drain()
			}
		case err, open := <-s.watcher.Errors:
			if open {
				s.settings.Log.Warn("watching files", "error", err)
				s.stale = true // the queue may have overflowed
			}
		}
		if s.stale {
			s.scan()
		}
	}
}

// due fires when the next waiting file may have rested.
func (s *Source) due() <-chan time.Time {
	if len(s.waiting) == 0 {
		return nil
	}
	return time.After(time.Until(s.next))
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

// notice marks what an event speaks of. All paths are looked at again only when folders or links came or went, so that ten thousand
// new files cost as many looks and not their square.
func (s *Source) notice(event fsnotify.Event) {
	name := filepath.Clean(event.Name)
	if s.isManifest(name) {
		s.compare(name, !event.Has(fsnotify.Remove) && !event.Has(fsnotify.Rename))
	}
	switch {
	case s.links[name], slices.Contains(s.settings.Paths, name):
		s.stale = true
	case event.Has(fsnotify.Create):
		info, err := os.Lstat(name)
		s.stale = s.stale || err == nil && !info.Mode().IsRegular()
	case event.Has(fsnotify.Remove), event.Has(fsnotify.Rename):
		_, folder := s.watched[name]
		s.stale = s.stale || folder
	}
}

// compare holds a file against what was read of it, and makes it wait when it differs. touched says that it changed just now even if
// it looks the same.
func (s *Source) compare(path string, touched bool) {
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
	if s.first && now.changed.Before(since) { // what lay there before we came has rested already, unless it changed just now
		since = now.changed
	}
	if at := since.Add(rest); len(s.waiting) == 0 || at.Before(s.next) {
		s.next = at
	}
	s.waiting[path] = &wait{now, since}
}

// settle reads the files that have rested.
func (s *Source) settle() {
	if len(s.waiting) > 0 && !time.Now().Before(s.next) {
		if ready := s.rested(); len(ready) > 0 {
			s.read(ready)
		}
		s.next = time.Now().Add(rest)
		for _, w := range s.waiting {
			if at := w.since.Add(rest); at.Before(s.next) {
				s.next = at
			}
		}
	}
	if s.first && (len(s.waiting) == 0 || time.Since(s.begun) > patience) {
		s.first = false
		close(s.synced)
	}
}

// rested returns the files that have not changed for long enough, in order.
func (s *Source) rested() []string {
	var ready []string
	for path, w := range s.waiting {
		if time.Since(w.since) < rest {
			continue
		}
		switch now := signatureOf(path); {
		case now != w.seen:
			w.seen, w.since = now, time.Now()
		case !now.exists && s.away(path):
			delete(s.waiting, path)
		default:
			ready = append(ready, path)
		}
	}
	slices.Sort(ready)
	return ready
}

// read loads the files and hands what they have to the store. The first ones go there in one step.
func (s *Source) read(paths []string) {
	initial := len(s.files) == 0
	var all []*store.Object
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
		if initial {
			all = append(all, f.all()...)
		} else {
			s.settings.Store.ReplaceFile(s.settings.Name, path, f.all())
		}
	}
	if initial {
		s.settings.Store.Replace(s.settings.Name, all)
	}
}

// scan looks at every path: which files there are, which have changed, which are gone.
func (s *Source) scan() {
	s.stale = false
	l := &look{s: s, found: map[string]bool{}, works: s.watched, before: s.unread}
	s.watched, s.links, s.unread = make(map[string]bool, len(l.works)), map[string]bool{}, map[string]bool{}
	for _, path := range s.settings.Paths {
		l.path(path)
	}
	for folder, works := range l.works {
		if _, still := s.watched[folder]; !still && works {
			_ = s.watcher.Remove(folder) // it fails for a folder that is gone, and whose watch went with it
		}
	}
	for path := range l.found {
		s.compare(path, false)
	}
	for path := range s.files {
		if !l.found[path] {
			s.compare(path, false)
		}
	}
}

// away reports whether a file is missing because its whole path of the settings is: a volume that is away. What it had stays.
func (s *Source) away(path string) bool {
	for root := range s.gone {
		if within(root, path) {
			return true
		}
	}
	return false
}
