package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside tells the re-executed program that it is in the namespace. It is taken out of the environment at once, so that what the
// program starts may enter a namespace of its own.
const inside = "SLUICE_TEST_NAMESPACE"

// Networks inside the namespace. Pods have theirs on a bridge; every address of the other two is local (AnyIP), so that a program
// can listen on any of them without a device.
const (
	PodNetwork     = "10.200.0.0/16"
	ServiceNetwork = "10.201.0.0/16"
	EdgeNetwork    = "10.202.0.0/16"
	NodeAddress    = "10.202.0.1"
)

// ErrUnavailable wraps what the machine lacks for a namespace.
var ErrUnavailable = errors.New("no test namespace on this machine")

// Enter runs the current program again in network, mount and process namespaces of its own and exits with its code; all that the
// program started ends with it. Inside, it sets up the devices and returns. It returns an error that wraps ErrUnavailable and
// names the capability where the machine does not allow it.
func Enter() error {
	if os.Getenv(inside) != "" {
		if err := os.Unsetenv(inside); err != nil {
			return err
		}
		return setUp()
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("%w: the program ip is not installed (package iproute2)", ErrUnavailable)
	}
	code, err := runInside()
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

// runInside runs the program again and returns its exit code.
func runInside() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // the child gets its death signal when this thread ends
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: network, mount and process namespaces cannot be made (CAP_SYS_ADMIN, or unprivileged user namespaces): %w", ErrUnavailable, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = cmd.Process.Signal(s) // it may have ended
		case err := <-ended:
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				return 0, err
			}
			return exitCode(cmd.ProcessState), nil
		}
	}
}

// exitCode is what a shell would say: 128 and the number of the signal that ended the program.
func exitCode(s *os.ProcessState) int {
	if status, known := s.Sys().(syscall.WaitStatus); known && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}

// setUp makes the namespaces usable, and tries what Pods will need.
func setUp() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%w: mounts cannot be made private: %w", ErrUnavailable, err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("%w: /proc of a process namespace cannot be mounted: %w", ErrUnavailable, err)
	}
	filesystems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err
	}
	if !strings.Contains(string(filesystems), "\toverlay\n") {
		return fmt.Errorf("%w: the kernel has no overlay file system", ErrUnavailable)
	}
	for _, step := range []struct{ needs, batch string }{
		{"a loopback device and local routes", "link set lo up\nroute add local " + ServiceNetwork + " dev lo\nroute add local " + EdgeNetwork + " dev lo\n"},
		{"bridge devices in the kernel", "link add probe0 type bridge\nlink del probe0\n"},
		{"veth devices in the kernel", "link add probe0 type veth peer name probe1\nlink del probe0\n"},
	} {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(step.batch)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: it lacks %s: %w: %s", ErrUnavailable, step.needs, err, out)
		}
	}
	return nil
}
