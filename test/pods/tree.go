package pods

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// file is one file of a volume that Kubernetes writes.
type file struct {
	data []byte
	mode fs.FileMode
}

// tree is the content of such a volume, by path.
type tree map[string]file

// dataLink is the link that readers follow; it is swapped in one step, so they see all of a change or nothing.
const dataLink = "..data"

// write makes the folder hold the tree, as the kubelet does: files stand in a fresh folder that ..data points to, and each name
// on top points through ..data. It returns false when nothing changed. The group owns the files unless it is 0.
func (t tree) write(dir string, group int) (changed bool, err error) {
	before, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if before != "" && t.same(filepath.Join(dir, before)) {
		return false, nil
	}
	fresh, err := os.MkdirTemp(dir, "..version-")
	if err != nil {
		return false, err
	}
	if err := t.fill(fresh, group); err != nil {
		return false, err
	}
	next := filepath.Join(dir, dataLink+"-next")
	if err := os.Symlink(filepath.Base(fresh), next); err != nil {
		return false, err
	}
	if err := os.Rename(next, filepath.Join(dir, dataLink)); err != nil {
		return false, err
	}
	if err := t.link(dir); err != nil {
		return false, err
	}
	if before != "" {
		return true, os.RemoveAll(filepath.Join(dir, before))
	}
	return true, nil
}

func (t tree) fill(dir string, group int) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for name, f := range t {
		path := filepath.Join(dir, name)
		if !filepath.IsLocal(name) {
			return fmt.Errorf("path %q leads out of the volume", name)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.data, f.mode); err != nil {
			return err
		}
		mode := f.mode
		if group != 0 {
			mode |= 0o040
			if err := os.Chown(path, 0, group); err != nil {
				return err
			}
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	return nil
}

// link makes the names on top, and removes those that are gone.
func (t tree) link(dir string) error {
	tops := map[string]bool{}
	for name := range t {
		top, _, _ := strings.Cut(name, "/")
		tops[top] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") && !tops[e.Name()] {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for top := range tops {
		err := os.Symlink(filepath.Join(dataLink, top), filepath.Join(dir, top))
		if err != nil && !errors.Is(err, syscall.EEXIST) {
			return err
		}
	}
	return nil
}

// same says whether a folder holds exactly the tree.
func (t tree) same(dir string) bool {
	count := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if f, known := t[name]; err == nil && (!known || !bytes.Equal(f.data, data)) {
			return fs.ErrExist
		}
		count++
		return err
	})
	return err == nil && count == len(t)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
