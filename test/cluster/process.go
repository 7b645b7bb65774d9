package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Process is a program with a log file.
type Process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// StartProcess starts a program that writes to dir/name.log. It is in a process group of its own, so that Ctrl-C reaches it only
// through us.
func StartProcess(dir, name, path string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(path, args...), log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // the state says how it ended
		close(p.done)
	}()
	return p, nil
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Pid is the process's number in our namespace.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// ExitCode of a program that has ended; -1 when a signal ended it.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the program alone.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Stop ends the program: gently within the time given, then at once.
func (p *Process) Stop(gently time.Duration) {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(gently):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Tail is the end of the program's log.
func (p *Process) Tail() string {
	log, err := os.ReadFile(p.log)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return strings.TrimSpace(string(log[max(0, len(log)-4000):]))
}
