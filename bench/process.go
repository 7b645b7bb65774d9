package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program under measurement, its children included.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan error
}

func start(ctx context.Context, o options, name string, argv ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...), log: filepath.Join(o.dir, name+".log"), done: make(chan error, 1)}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p, nil
}

// stop ends the program and waits for it.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// awaitPort returns when something listens on the loopback port, or with the end of the program's log.
func (p *process) awaitPort(port int) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		conn, err := net.DialTimeout("tcp", address(port), time.Second)
		if err == nil {
			conn.Close()
			return nil
		}
		select {
		case err := <-p.done:
			p.done <- err
			return fmt.Errorf("%s ended: %w\n%s", p.cmd.Path, err, p.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("nothing listens on %d\n%s", port, p.tail())
}

func (p *process) tail() []byte {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return nil
	}
	return log[max(0, len(log)-2000):]
}

// cpu is the user and system time so far of the process tree.
func (p *process) cpu() time.Duration {
	var ticks int64
	for _, pid := range tree(p.cmd.Process.Pid) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, f := range fields[11:13] {
			n, _ := strconv.ParseInt(f, 10, 64) // the kernel writes a number
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory is the resident memory of the process tree in bytes.
func (p *process) memory() int64 {
	var pages int64
	for _, pid := range tree(p.cmd.Process.Pid) {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		n, _ := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
		pages += n
	}
	return pages * int64(os.Getpagesize())
}

func tree(pid int) []int {
	all := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		children, err := os.ReadFile(t)
		if err != nil {
			continue
		}
		for _, c := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(c); err == nil {
				all = append(all, tree(n)...)
			}
		}
	}
	return all
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

var errNoFreePort = errors.New("no free port")

// freePorts returns n ports that nobody listened on a moment ago.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoFreePort, err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}
