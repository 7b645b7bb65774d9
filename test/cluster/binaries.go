package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Binaries are the programs of a control plane.
type Binaries struct {
	Etcd, APIServer, ControllerManager string
}

// programs are the packages that the programs are built from; their versions stand in go.mod.
var programs = []string{"go.etcd.io/etcd/server/v3", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kube-controller-manager"}

// Build returns the control plane's programs from the cache, and builds those that it lacks: minutes, once a version and
// toolchain. It says so on progress while it does.
func Build(ctx context.Context, progress io.Writer) (Binaries, error) {
	root, err := cacheDir()
	if err != nil {
		return Binaries{}, err
	}
	module, err := moduleDir()
	if err != nil {
		return Binaries{}, err
	}
	versions, err := output(ctx, module, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes", "go.etcd.io/etcd/server/v3")
	if err != nil {
		return Binaries{}, err
	}
	kubernetes, _, _ := strings.Cut(versions, "\n")
	dir := filepath.Join(root, "control-plane-"+strings.Join(strings.Fields(versions), "-etcd-")+"-"+runtime.Version()+"-stamped")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return Binaries{}, err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	paths := make([]string, len(programs))
	for i, p := range programs {
		paths[i] = filepath.Join(dir, name(p))
		if _, err := os.Stat(paths[i]); err == nil {
			continue
		}
		if err := stamp(kubernetes).build(ctx, progress, module, p, paths[i]); err != nil {
			return Binaries{}, err
		}
	}
	return Binaries{paths[0], paths[1], paths[2]}, nil
}

func name(program string) string {
	if strings.HasPrefix(program, "go.etcd.io/") {
		return "etcd"
	}
	return filepath.Base(program)
}

// stamp is the version of Kubernetes that the programs say they are: built from a module, they do not know it, and clients that ask for
// it take the answer for broken.
type stamp string

func (v stamp) flags() string {
	major, rest, _ := strings.Cut(strings.TrimPrefix(string(v), "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const at = " -X k8s.io/component-base/version."
	return "-s -w" + at + "gitVersion=" + string(v) + at + "gitMajor=" + major + at + "gitMinor=" + minor
}

func (v stamp) build(ctx context.Context, progress io.Writer, module, program, path string) error {
	start := time.Now()
	fmt.Fprintf(progress, "building %s, once (some minutes)\n", name(program))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", v.flags(), "-o", path+".new", program)
	cmd.Dir, cmd.Env = module, append(environment(), "CGO_ENABLED=0")
	done := make(chan error, 1)
	go func() {
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build %s: %w\n%s", program, err, out)
		}
		done <- err
	}()
	tick := time.NewTicker(20 * time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			fmt.Fprintf(progress, "built %s in %s\n", name(program), time.Since(start).Round(time.Second))
			return os.Rename(path+".new", path)
		case <-tick.C:
			fmt.Fprintf(progress, "still building %s, %s so far\n", name(program), time.Since(start).Round(time.Second))
		}
	}
}

// cacheDir is where heavy builds are kept.
func cacheDir() (string, error) {
	if dir := os.Getenv("SLUICE_TEST_CACHE"); dir != "" {
		return dir, nil
	}
	out, err := output(context.Background(), "", "go", "env", "GOCACHE")
	if err != nil {
		return "", err
	}
	return filepath.Join(strings.TrimSpace(out), "sluice"), nil
}

// moduleDir is the folder of the test module, whose go.mod has the versions: at or above the working directory or that of the program, or
// test/ there.
func moduleDir() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	program, err := os.Executable()
	if err != nil {
		return "", err
	}
	for _, from := range []string{here, filepath.Dir(program)} {
		if dir := moduleAbove(from); dir != "" {
			return dir, nil
		}
	}
	return "", fmt.Errorf("find the module sluice.dev/sluice/test: it is neither at nor above %s and %s", here, filepath.Dir(program))
}

// moduleAbove is the folder of the test module, or empty.
func moduleAbove(dir string) string {
	for {
		for _, candidate := range []string{dir, filepath.Join(dir, "test")} {
			text, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && strings.HasPrefix(string(text), "module sluice.dev/sluice/test\n") {
				return candidate
			}
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// environment has go be the toolchain that this program was built with, which go.mod asks for, whatever is first in PATH.
func environment() []string { return append(os.Environ(), "GOTOOLCHAIN="+runtime.Version()) }

func output(ctx context.Context, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, environment()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, stderr.String())
	}
	return string(out), nil
}

// lock takes a lock between processes, so that two test binaries do not build the same thing at once.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil // closing gives the lock up
}

// Discard in place of a path builds a program only for the sake of what it needs: modules fetched and packages compiled.
const Discard = os.DevNull

// BuildProgram builds a program of the test module, such as echo.
func BuildProgram(ctx context.Context, program, path string) error {
	module, err := moduleDir()
	if err != nil {
		return err
	}
	return buildIn(ctx, module, "./"+program, path)
}

// BuildSluice builds the program of the module above.
func BuildSluice(ctx context.Context, path string) error {
	module, err := moduleDir()
	if err != nil {
		return err
	}
	return buildIn(ctx, filepath.Dir(module), "./cmd/sluice", path)
}

func buildIn(ctx context.Context, dir, program, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", path, program)
	cmd.Dir, cmd.Env = dir, append(environment(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}
