package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// bind shows a file or folder of this machine at a path of the container.
type bind struct {
	source, target string
	readOnly       bool
}

// root is what a container sees as its file system: this machine's files, with whatever the container writes kept apart.
type root struct {
	dir      string   // for what it writes
	through  []string // file systems of this machine that show through
	binds    []bind
	readOnly bool
}

// host is where this machine's files are while the file system of a container is put together.
const host = "/.host"

// enter gives the calling thread a mount namespace with the file system, and returns that namespace.
func (r *root) enter() (*os.File, error) {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("unshare mounts: %w", err)
	}
	namespace, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return nil, err
	}
	if err := r.build(); err != nil {
		namespace.Close()
		return nil, err
	}
	return namespace, nil
}

func (r *root) build() error {
	upper, work, top := filepath.Join(r.dir, "upper"), filepath.Join(r.dir, "work"), filepath.Join(r.dir, "root")
	for _, dir := range []string{upper, work, top} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("overlay", top, "overlay", 0, "lowerdir=/,upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	for _, path := range r.through {
		if err := unix.Mount(path, top+path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
	}
	if err := unix.Mount("tmpfs", top+"/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if err := os.MkdirAll(top+host, 0o755); err != nil {
		return err
	}
	if err := unix.PivotRoot(top, top+host); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	for _, b := range r.binds {
		if err := b.mount(); err != nil {
			return fmt.Errorf("mount %s: %w", b.target, err)
		}
	}
	if err := unix.Unmount(host, unix.MNT_DETACH); err != nil {
		return err
	}
	if err := os.Remove(host); err != nil {
		return err
	}
	if r.readOnly {
		return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	}
	return nil
}

// mount makes the mount point where it is missing.
func (b bind) mount() error {
	source := host + b.source
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(b.target, 0o755)
	} else {
		err = touch(b.target)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(source, b.target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if !b.readOnly {
		return nil
	}
	return unix.Mount("", b.target, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}

func touch(path string) error {
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o644)
}

// mountsBelow lists the file systems mounted below / that a container sees too: all but those below hidden.
func mountsBelow(hidden ...string) ([]string, error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] == "/" || below(fields[4], hidden...) || below(fields[4], out...) {
			continue
		}
		if _, err := os.Stat(fields[4]); err == nil { // else it is covered by another
			out = append(out, fields[4])
		}
	}
	return out, nil
}

func below(path string, roots ...string) bool {
	for _, r := range roots {
		if path == r || strings.HasPrefix(path, r+"/") {
			return true
		}
	}
	return false
}
