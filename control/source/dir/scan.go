package dir

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// signature tells whether a file is still the one that was seen.
type signature struct {
	exists  bool
	size    int64
	device  uint64
	inode   uint64
	changed time.Time // the later of content and status change
}

// signatureOf follows links, so that it changes when ..data of a mounted ConfigMap points elsewhere.
func signatureOf(path string) signature {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return signature{}
	}
	s := signature{exists: true, size: info.Size(), changed: info.ModTime()}
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
		if path == root {
			return true
		}
		if within(root, path) && readable(filepath.Base(path)) {
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

func within(root, path string) bool {
	return strings.HasPrefix(path, root+string(filepath.Separator)) || root == "." && !filepath.IsAbs(path)
}

// scanPath adds the files of a path of the settings to found, and watches what must be watched to hear of changes.
func (s *Source) scanPath(path string, found map[string]bool) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		if s.hadFolder(path) {
			s.vanished(path)
		}
		s.watchAncestor(path)
	case info.IsDir():
		delete(s.gone, path)
		s.scanFolder(path, found, 0)
		s.watchAncestor(path)
	default:
		found[path] = true
		s.watch(filepath.Dir(path))
		if target, err := filepath.EvalSymlinks(path); err == nil && target != path {
			s.watch(filepath.Dir(target))
		}
	}
}

func (s *Source) hadFolder(path string) bool {
	for read := range s.files {
		if within(path, read) {
			return true
		}
	}
	return false
}

const maxFolders = 16 // levels of folders in folders

func (s *Source) scanFolder(folder string, found map[string]bool, depth int) {
	s.watch(folder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		s.settings.Log.Warn("a folder of manifests cannot be read", "path", folder, "error", err)
		return
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."):
		case isFolder(entry, path):
			if depth < maxFolders {
				s.scanFolder(path, found, depth+1)
			}
		case readable(entry.Name()):
			found[path] = true
		}
	}
}

func isFolder(entry os.DirEntry, path string) bool {
	if entry.Type()&os.ModeSymlink == 0 {
		return entry.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// watchAncestor watches the nearest folder above a path that exists, to hear when the path comes or goes.
func (s *Source) watchAncestor(path string) {
	for parent := filepath.Dir(path); ; parent = filepath.Dir(parent) {
		if info, err := os.Stat(parent); err == nil && info.IsDir() {
			s.watch(parent)
			return
		}
		if parent == filepath.Dir(parent) {
			return
		}
	}
}

// watch asks the system to tell of changes in a folder. A folder that went and came back under the same name is another one, so each
// scan asks again.
func (s *Source) watch(folder string) {
	if s.watcher.Events == nil {
		return
	}
	err := s.watcher.Add(folder)
	if err != nil && s.watched[folder] {
		return
	}
	s.watched[folder] = err == nil
	if err != nil {
		s.settings.Log.Warn("a folder cannot be watched; it is looked at every few seconds", "path", folder, "error", err)
		s.watched[folder] = true // said once
	}
}
