package dir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// signature tells whether a file is still the one that was seen.
type signature struct {
	exists  bool
	plain   bool // a file, and not a pipe or a device
	size    int64
	device  uint64
	inode   uint64
	changed time.Time // the later of content and status change
}

// signatureOf follows links, so that it changes when ..data of a mounted ConfigMap points elsewhere. A file that cannot be looked at
// is there; reading it will say why not.
func signatureOf(path string) signature {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return signature{}
	case err != nil:
		return signature{exists: true, plain: true}
	case info.IsDir():
		return signature{}
	}
	s := signature{exists: true, plain: info.Mode().IsRegular(), size: info.Size(), changed: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode = uint64(sys.Dev), sys.Ino //nolint:unconvert // Dev is an int32 on darwin
		if status := statusChange(sys); status.After(s.changed) {
			s.changed = status
		}
	}
	return s
}

// isManifest reports whether a path is one of those given, or a file of a given folder that is read by its name.
func (s *Source) isManifest(path string) bool {
	for _, root := range s.settings.Paths {
		if path == root || within(root, path) && readable(filepath.Base(path)) && !hidden(root, path) {
			return true
		}
	}
	return false
}

// readable says which names of a folder are read: not hidden ones, nor what editors leave beside a file.
func readable(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// hidden reports whether one of the names between root and path begins with a dot.
func hidden(root, path string) bool {
	between, err := filepath.Rel(root, path)
	return err != nil || strings.HasPrefix(between, ".") || strings.Contains(between, string(filepath.Separator)+".")
}

// within reports whether a path is under a folder; both are clean.
func within(root, path string) bool {
	if root == "." {
		return !filepath.IsAbs(path) && path != ".." && !strings.HasPrefix(path, ".."+string(filepath.Separator))
	}
	return strings.HasPrefix(path, strings.TrimSuffix(root, string(filepath.Separator))+string(filepath.Separator))
}

// look is one look at all paths.
type look struct {
	s      *Source
	found  map[string]bool // the manifests that are there
	works  map[string]bool // what was watched before: whether the system could tell of it
	before map[string]bool // folders that could not be read before
}

// path adds the files of a path of the settings to what is found, and watches what must be watched to hear of changes.
func (l *look) path(path string) {
	l.watchAbove(path)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		l.s.missing(path)
		return
	case info.IsDir():
		l.folder(path, []os.FileInfo{info})
	default:
		l.found[path] = true
		l.follow(path)
	}
	if l.s.gone[path] {
		l.s.settings.Log.Info("a path of manifests is there", "path", path)
		delete(l.s.gone, path)
	}
}

// missing takes note of a path of the settings that is not there, and says so once.
func (s *Source) missing(path string) {
	if s.gone[path] {
		return
	}
	s.gone[path] = true
	kept := 0
	for read := range s.files {
		if within(path, read) {
			kept++
		}
	}
	if kept > 0 {
		s.settings.Log.Warn("a folder of manifests is gone; what its files had is kept until it is back", "path", path, "files", kept)
	} else {
		s.settings.Log.Warn("a path of manifests is not there; it is waited for", "path", path)
	}
}

// folder looks through a folder and those in it. above are the folders that lead to it, itself included, so that a link to one of them is no
// endless way down.
func (l *look) folder(folder string, above []os.FileInfo) {
	l.watch(folder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		if !l.before[folder] {
			l.s.settings.Log.Warn("a folder of manifests cannot be read", "path", folder, "error", err)
		}
		l.s.unread[folder] = true
	}
	for _, entry := range entries {
		name, path := entry.Name(), filepath.Join(folder, entry.Name())
		if strings.HasPrefix(name, ".") {
			continue
		}
		link := entry.Type()&os.ModeSymlink != 0
		if entry.IsDir() || link {
			info, err := os.Stat(path)
			if err == nil && info.IsDir() {
				if !slices.ContainsFunc(above, func(a os.FileInfo) bool { return os.SameFile(a, info) }) {
					l.folder(path, append(above[:len(above):len(above)], info))
				}
				continue
			}
		}
		if readable(name) {
			l.found[path] = true
			if link {
				l.follow(path)
			}
		}
	}
}

// follow watches where a manifest that is a link leads to.
func (l *look) follow(path string) {
	if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
		l.s.links[target] = true
		l.watch(filepath.Dir(target))
	}
}

// watchAbove watches the nearest folder above a path that exists, to hear when the path, or what leads to it, comes or goes.
func (l *look) watchAbove(path string) {
	nearest := func() string {
		for parent := filepath.Dir(path); ; parent = filepath.Dir(parent) {
			if info, err := os.Stat(parent); err == nil && info.IsDir() || parent == filepath.Dir(parent) {
				return parent
			}
		}
	}
	for {
		parent := nearest()
		l.watch(parent)
		if nearest() == parent { // nothing came or went before the watch was there
			return
		}
	}
}

// watch asks the system to tell of changes in a folder. A folder that went and came back under the same name is another one, so each
// look asks again.
func (l *look) watch(folder string) {
	if _, done := l.s.watched[folder]; done || l.s.watcher.Events == nil {
		return
	}
	err := l.s.watcher.Add(folder)
	l.s.watched[folder] = err == nil
	if worked, asked := l.works[folder]; err != nil && (worked || !asked) {
		l.s.settings.Log.Warn("a folder cannot be watched; it is looked at every few seconds", "path", folder, "error", err)
	}
}
