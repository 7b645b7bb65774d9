package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/lane"
	"sluice.dev/sluice/test/pods"
)

// address is Sluice's.
const address = "10.202.0.10"

const class = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: sluice}
spec: {controller: sluice.dev/ingress-controller}
`

// prepare builds what is needed, outside the namespace.
func (o options) prepare(ctx context.Context) error {
	if _, err := cluster.Build(ctx, os.Stderr); err != nil {
		return err
	}
	for _, program := range o.programs() {
		if err := cluster.BuildProgram(ctx, program, cluster.Discard); err != nil {
			return err
		}
	}
	if o.noSluice || o.sluice != "" {
		return nil
	}
	return cluster.BuildSluice(ctx, cluster.Discard)
}

// ours is what the command of an image begins with that is a program of the test module.
const ours = "test/"

// programs of the test module that images stand for.
func (o options) programs() []string {
	out := []string{"echo"}
	for _, text := range o.images {
		_, image, err := pods.ParseImage(text)
		if err != nil {
			continue // parse has said so
		}
		if program, isOurs := strings.CutPrefix(image.Command[0], ours); isOurs && !slices.Contains(out, program) {
			out = append(out, program)
		}
	}
	return out
}

// run starts everything, runs the command and returns its exit code.
func (o options) run(ctx context.Context) (code int, err error) {
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "sluice-cluster-"); err != nil {
			return 0, err
		}
	} else if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil || code != 0 || o.dir != "" {
			fmt.Fprintf(os.Stderr, "logs: %s\n", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	if err := lane.QuietClients(filepath.Join(dir, "client-go.log")); err != nil {
		return 0, err
	}
	c, err := cluster.Start(ctx, cluster.Settings{Dir: filepath.Join(dir, "control-plane"), Progress: os.Stderr})
	if err != nil {
		return 0, err
	}
	defer c.Stop()
	stop, err := o.startPods(ctx, c, dir)
	if err != nil {
		return 0, err
	}
	defer stop()
	if !o.noSluice {
		sluice, err := o.startSluice(ctx, c, dir)
		if err != nil {
			return 0, err
		}
		defer sluice.Stop(40 * time.Second) // it drains
	}
	return o.runCommand(c)
}

// startPods runs the Pods with the images of the command line.
func (o options) startPods(ctx context.Context, c *cluster.Cluster, dir string) (stop func(), err error) {
	programs := filepath.Join(dir, "programs")
	for _, program := range o.programs() {
		if err := cluster.BuildProgram(ctx, program, filepath.Join(programs, program)); err != nil {
			return nil, err
		}
	}
	images := pods.Images{}
	for _, text := range append([]string{lane.EchoImage + "*=test/echo"}, o.images...) {
		name, image, err := pods.ParseImage(text)
		if err != nil {
			return nil, err
		}
		path, isOurs := strings.CutPrefix(image.Command[0], ours)
		if isOurs {
			path = filepath.Join(programs, path)
		} else if path, err = exec.LookPath(path); err != nil {
			return nil, fmt.Errorf("image %s: %w", name, err)
		}
		if image.Command[0], err = filepath.Abs(path); err != nil {
			return nil, err
		}
		images[name] = image
	}
	log, err := os.Create(filepath.Join(dir, "pods.log"))
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(ctx)
	runner, err := lane.StartPods(running, c, pods.Settings{Images: images, Dir: filepath.Join(dir, "pods"), Log: log})
	if err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() { runner.Run(running); close(done) }()
	return func() {
		cancel()
		<-done
		log.Close()
	}, nil
}

// startSluice starts Sluice and waits until it is ready.
func (o options) startSluice(ctx context.Context, c *cluster.Cluster, dir string) (*cluster.Process, error) {
	binary := o.sluice
	if binary == "" {
		binary = filepath.Join(dir, "sluice")
		if err := cluster.BuildSluice(ctx, binary); err != nil {
			return nil, err
		}
	}
	if err := c.Apply(ctx, "default", class); err != nil {
		return nil, err
	}
	args := append([]string{
		"serve", "--kubeconfig", c.Kubeconfig, "--http", address + ":80", "--https", address + ":443", "--publish-status-address", address, "--api-addr", "localhost:2381",
	}, o.flags...)
	sluice, err := cluster.StartProcess(dir, "sluice", binary, args...)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: time.Second}
	limit, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = cluster.Wait(limit, "Sluice to be ready", func(ctx context.Context) (bool, error) {
		select {
		case <-sluice.Done():
			return false, fmt.Errorf("it ended with exit code %d", sluice.ExitCode())
		default:
		}
		response, err := client.Get("http://localhost:2381/readyz")
		if err != nil {
			return false, nil // it does not listen yet
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		sluice.Stop(time.Second)
		return nil, fmt.Errorf("%w:\n%s", err, sluice.Tail())
	}
	return sluice, nil
}

// runCommand runs the command, passes signals on and returns its exit code as a shell would.
func (o options) runCommand(c *cluster.Cluster) (int, error) {
	cmd := exec.Command(o.command[0], o.command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "SLUICE_ADDRESS="+address)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
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
			if status, known := cmd.ProcessState.Sys().(syscall.WaitStatus); known && status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}
