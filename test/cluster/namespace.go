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
// program started ends with it. Inside, it sets up the devices and returns. Before that, outside, it calls prepare (it may be nil),
// which builds what is needed: inside there is no network to fetch modules from. It returns an error that wraps ErrUnavailable and
// names the capability where the machine does not allow it; then it has not called prepare.
func Enter(prepare func() error) error {
	if role := os.Getenv(inside); role != "" {
		if err := os.Unsetenv(inside); err != nil {
			return err
		}
		err := setUp()
		if role == probing {
			answer(err)
		}
		return err
	}
	if err := probe(); err != nil {
		return err
	}
	if prepare != nil {
		if err := prepare(); err != nil {
			return err
		}
	}
	code, err := runInside()
	if err != nil {
		return err
	}
	os.Exit(code)
	return nil
}

// The roles of a program that runs inside.
const (
	probing = "probe" // say whether it works
	working = "work"
)

// answer ends a probe.
func answer(err error) {
	if err != nil {
		fmt.Fprint(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// probe tries whether the namespaces can be made and are good for Pods.
func probe() error {
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("%w: the program ip is not installed (package iproute2)", ErrUnavailable)
	}
	cmd, err := again(probing)
	if err != nil {
		return err
	}
	var reason strings.Builder
	cmd.Stderr = &reason
	err = cmd.Run()
	var exit *exec.ExitError
	switch text, isOurs := strings.CutPrefix(reason.String(), ErrUnavailable.Error()+": "); {
	case err == nil:
		return nil
	case isOurs:
		return fmt.Errorf("%w: %s", ErrUnavailable, text)
	case !errors.As(err, &exit):
		return fmt.Errorf("%w: network, mount and process namespaces cannot be made (CAP_SYS_ADMIN, or unprivileged user namespaces): %w", ErrUnavailable, err)
	}
	return fmt.Errorf("try the test namespace: %w: %s", err, reason.String())
}

// again is the current program in namespaces of its own.
func again(role string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"="+role)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return cmd, nil
}

// runInside runs the program again and returns its exit code.
func runInside() (int, error) {
	cmd, err := again(working)
	if err != nil {
		return 0, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	runtime.LockOSThread() // the child gets its death signal when this thread ends
	defer runtime.UnlockOSThread()
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, err
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
