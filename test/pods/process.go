package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// program is what a container runs, and as whom.
type program struct {
	argv, env []string
	path      string // value of PATH
	dir       string
	uid, gid  int64
	groups    []uint32
	noNewPriv bool
	keepCaps  []corev1.Capability // of those dropped
	dropCaps  bool                // all others
}

// process is a running container, the first of a process namespace of its own: all processes end with it.
type process struct {
	program
	cmd     *exec.Cmd
	sandbox *sandbox
	done    chan struct{} // closed when it has ended

	mu       sync.RWMutex // held for reading while the namespaces are entered
	mnt, pid *os.File     // nil when it has ended
}

// start runs the program in the sandbox with the file system.
func (g program) start(s *sandbox, r *root, log *os.File) (*process, error) {
	p := &process{program: g, sandbox: s, done: make(chan struct{})}
	err := onThread(func() (err error) {
		if err = s.enter(); err != nil {
			return err
		}
		if p.mnt, err = r.enter(); err != nil {
			return err
		}
		if p.cmd, err = g.command(g.argv); err != nil {
			return err
		}
		p.cmd.Stdout, p.cmd.Stderr = log, log
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
		return p.cmd.Start()
	})
	if err != nil {
		p.close()
		return nil, err
	}
	p.pid, _ = os.Open(fmt.Sprintf("/proc/%d/ns/pid", p.cmd.Process.Pid)) // where it fails the program has ended, and nothing can be run beside it
	go func() {
		_ = p.cmd.Wait() // the state says how it ended
		p.close()
		close(p.done)
	}()
	return p, nil
}

func (p *process) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range []*os.File{p.mnt, p.pid} {
		if f != nil {
			f.Close()
		}
	}
	p.mnt, p.pid = nil, nil
}

// command prepares a command on a thread that is in the container's namespaces already, and takes away what the container may not do.
func (g program) command(argv []string) (*exec.Cmd, error) {
	path, err := lookPath(argv[0], g.path)
	if err != nil {
		return nil, err
	}
	if g.uid != 0 {
		open(path)
	}
	if g.noNewPriv {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("set no_new_privs: %w", err)
		}
	}
	if g.dropCaps {
		if err := dropCapabilities(g.keepCaps); err != nil {
			return nil, err
		}
	}
	cmd := &exec.Cmd{Path: path, Args: argv, Env: g.env, Dir: g.dir, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if g.uid != 0 || g.gid != 0 || g.groups != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(g.uid), Gid: uint32(g.gid), Groups: g.groups}
	}
	return cmd, nil
}

// open lets everyone reach a program that lies in a private folder of this machine; an image's files are readable. It changes the
// container's view alone.
func open(path string) {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o011 != 0o011 {
			_ = os.Chmod(dir, info.Mode()|0o011) // where that fails, starting the program says so
		}
	}
}

// lookPath finds a program as execvp does.
func lookPath(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(path) {
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("exec: %q: %w in $PATH", name, fs.ErrNotExist)
}

// capabilities by number, those that Kubernetes lets a restricted container add, and those often added.
var capabilities = map[corev1.Capability]uintptr{
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "FOWNER": unix.CAP_FOWNER, "KILL": unix.CAP_KILL, "NET_ADMIN": unix.CAP_NET_ADMIN,
	"NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE, "NET_RAW": unix.CAP_NET_RAW, "SETGID": unix.CAP_SETGID, "SETUID": unix.CAP_SETUID,
}

// dropCapabilities takes all capabilities but those kept from what the thread starts.
func dropCapabilities(keep []corev1.Capability) error {
	for number := uintptr(0); number <= unix.CAP_LAST_CAP; number++ {
		if slices.ContainsFunc(keep, func(c corev1.Capability) bool { n, known := capabilities[c]; return known && n == number }) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, number, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop capability %d: %w", number, err)
		}
	}
	return nil
}

// exec runs a command in the container and returns its output.
func (p *process) exec(ctx context.Context, argv []string) ([]byte, error) {
	out, err := os.CreateTemp("", "exec-") // a file, so that a child that lives on does not hold us up
	if err != nil {
		return nil, err
	}
	defer out.Close()
	defer func() { _ = os.Remove(out.Name()) }() // a temporary file
	var cmd *exec.Cmd
	err = onThread(func() (err error) {
		if err = p.enter(); err != nil {
			return err
		}
		if cmd, err = p.command(argv); err != nil {
			return err
		}
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Start()
	})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it may have ended
	err = cmd.Wait()
	stop()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	text, readErr := os.ReadFile(out.Name())
	return text, errors.Join(err, readErr)
}

// enter puts the calling thread into the container, and what it starts among the container's processes.
func (p *process) enter() error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.mnt == nil || p.pid == nil {
		return fmt.Errorf("the container has ended")
	}
	if err := p.sandbox.enter(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(int(p.mnt.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the mounts: %w", err)
	}
	if err := unix.Setns(int(p.pid.Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("enter the processes: %w", err)
	}
	return nil
}

// exitCode is as the shell and Kubernetes have it.
func (p *process) exitCode() int32 {
	status, known := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if known && status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(p.cmd.ProcessState.ExitCode())
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// restrict fills in what the security contexts of a Pod and a container say.
func (g *program) restrict(pod *corev1.PodSecurityContext, own *corev1.SecurityContext) {
	if pod != nil {
		g.uid, g.gid = ptr.Deref(pod.RunAsUser, 0), ptr.Deref(pod.RunAsGroup, 0)
		for _, group := range pod.SupplementalGroups {
			g.groups = append(g.groups, uint32(group))
		}
		if pod.FSGroup != nil {
			g.groups = append(g.groups, uint32(*pod.FSGroup))
		}
	}
	if own == nil {
		return
	}
	g.uid, g.gid = ptr.Deref(own.RunAsUser, g.uid), ptr.Deref(own.RunAsGroup, g.gid)
	g.noNewPriv = !ptr.Deref(own.AllowPrivilegeEscalation, true)
	if own.Capabilities != nil {
		g.dropCaps = slices.Contains(own.Capabilities.Drop, "ALL")
		g.keepCaps = own.Capabilities.Add
	}
}
