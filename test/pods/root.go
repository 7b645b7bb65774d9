package pods

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
	dir      string // for what it writes
	machine  *machine
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
	top := filepath.Join(r.dir, "root")
	if err := os.MkdirAll(top, 0o755); err != nil {
		return err
	}
	if err := r.layer(top); err != nil {
		return err
	}
	for _, path := range r.machine.through {
		if err := os.MkdirAll(top+path, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(path, top+path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
	}
	if err := os.MkdirAll(top+"/run", 0o755); err != nil {
		return err
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

// layer puts the machine's folders under what the container writes.
func (r *root) layer(top string) error {
	if len(r.machine.layers) > 1 { // what is beside them is the container's own
		if err := unix.Mount(top, top, "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	for _, path := range r.machine.layers {
		upper, work := filepath.Join(r.dir, "upper", path), filepath.Join(r.dir, "work", path)
		for _, dir := range []string{upper, work, top + path} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if err := os.Chmod(upper, info.Mode()); err != nil { // the container sees this mode
			return err
		}
		if err := unix.Mount("overlay", top+path, "overlay", 0, "lowerdir="+path+",upperdir="+upper+",workdir="+work+r.machine.options); err != nil {
			return fmt.Errorf("mount overlay on %s: %w", path, err)
		}
	}
	for name, target := range r.machine.links {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			return err
		}
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

// machine is how this machine's files are put together for containers.
type machine struct {
	layers  []string          // folders that containers see as they are, and write over
	options string            // of the overlays
	links   map[string]string // symbolic links on top, where / is no layer
	through []string          // file systems, and folders with some below, that are not layered
}

// newMachine looks at what is mounted. Whatever is below hidden stays out.
func newMachine(hidden ...string) (*machine, error) {
	mounts, err := mountPoints(hidden...)
	if err != nil {
		return nil, err
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nil, err
	}
	m := &machine{layers: []string{"/"}}
	if whole := strings.Fields(string(users)); len(whole) != 3 || whole[2] != "4294967295" {
		// In a user namespace a folder with mounts below cannot be a layer, so each on top is one if it can.
		if err := m.layerTops(mounts, hidden...); err != nil {
			return nil, err
		}
	}
	for _, path := range mounts {
		switch {
		case below(path, m.through...) || slices.Contains(m.layers, path):
		case path == "/tmp" && !hasBelow(mounts, path): // what containers write there must not come to this machine's
			m.layers = append(m.layers, path)
		default:
			m.through = append(m.through, path)
		}
	}
	return m, nil
}

// layerTops makes the folders on top layers, where they can be.
func (m *machine) layerTops(mounts []string, hidden ...string) error {
	m.layers, m.options, m.links = nil, ",userxattr", map[string]string{}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := "/" + e.Name()
		isMount := slices.Contains(mounts, path) && path != "/tmp"
		switch target, linkErr := os.Readlink(path); {
		case linkErr == nil:
			m.links[e.Name()] = target
		case !e.IsDir() || below(path, hidden...):
		case isMount || hasBelow(mounts, path):
			m.through = append(m.through, path)
		default:
			m.layers = append(m.layers, path)
		}
	}
	return nil
}

// mountPoints lists where file systems are mounted, but for /, those below hidden, and those that another covers.
func mountPoints(hidden ...string) ([]string, error) {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] == "/" || below(fields[4], hidden...) || slices.Contains(out, fields[4]) {
			continue
		}
		if _, err := os.Stat(fields[4]); err == nil {
			out = append(out, fields[4])
		}
	}
	slices.Sort(out)
	return out, nil
}

func hasBelow(paths []string, dir string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return p != dir && below(p, dir) })
}

func below(path string, roots ...string) bool {
	for _, r := range roots {
		if path == r || strings.HasPrefix(path, r+"/") {
			return true
		}
	}
	return false
}
