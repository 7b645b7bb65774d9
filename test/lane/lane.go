// Package lane gives the tests of a package one cluster with running Pods, in a namespace of its own. Where the machine cannot, its
// tests are skipped with the reason.
package lane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"

	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/pods"
)

// Lane is what the tests of a package share. Its zero value is for Main.
type Lane struct {
	*cluster.Cluster
	Audit  bool // set before Main: every request is written down, for Audited
	Runner *pods.Runner
	Images pods.Images

	unavailable error
	mu          sync.Mutex
	err         error
	dir         string
	stop        func()
	skipped     int
}

// EchoImage is the name of the image that is the program test/echo.
const EchoImage = "sluice.dev/test/echo"

// Main enters the namespace, runs the tests and returns the exit code; it is for TestMain. The cluster starts with the first test
// that needs it.
func Main(m *testing.M, l *Lane) int {
	l.unavailable = cluster.Enter(prepare)
	if l.unavailable != nil && !errors.Is(l.unavailable, cluster.ErrUnavailable) {
		fmt.Fprintln(os.Stderr, l.unavailable)
		return 1
	}
	code := m.Run()
	if l.skipped > 0 {
		fmt.Printf("skipped %d tests: %v\n", l.skipped, l.unavailable)
	}
	if l.stop == nil {
		return code
	}
	l.stop()
	if code != 0 {
		fmt.Printf("logs: %s\n", l.dir)
		return code
	}
	if err := os.RemoveAll(l.dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

func prepare() error {
	ctx := context.Background()
	if _, err := cluster.Build(ctx, os.Stderr); err != nil {
		return err
	}
	return cluster.BuildProgram(ctx, "echo", cluster.Discard)
}

// Need starts the cluster, once, or skips the test. The context is the test's, and ends before its deadline.
func (l *Lane) Need(t *testing.T) context.Context {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unavailable != nil {
		l.skipped++
		t.Skip(l.unavailable)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	if l.stop == nil && l.err == nil {
		l.err = l.start(ctx)
	}
	if l.err != nil {
		t.Fatal(l.err)
	}
	return ctx
}

func (l *Lane) start(ctx context.Context) (err error) {
	if l.dir, err = os.MkdirTemp("", "sluice-test-"); err != nil {
		return err
	}
	if err := QuietClients(filepath.Join(l.dir, "client-go.log")); err != nil {
		return err
	}
	echo := filepath.Join(l.dir, "echo")
	if err := cluster.BuildProgram(ctx, "echo", echo); err != nil {
		return err
	}
	l.Images = pods.Images{EchoImage: {Command: []string{echo}}}
	if l.Cluster, err = cluster.Start(ctx, cluster.Settings{Dir: filepath.Join(l.dir, "cluster"), Progress: os.Stderr, Audit: l.Audit}); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(l.dir, "pods.log"))
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	if l.Runner, err = StartPods(running, l.Cluster, pods.Settings{Images: l.Images, Dir: filepath.Join(l.dir, "pods"), Log: log, BackOff: time.Second}); err != nil {
		stop()
		return err
	}
	done := make(chan struct{})
	go func() { l.Runner.Run(running); close(done) }()
	l.stop = func() {
		stop()
		<-done
		l.Stop()
		log.Close()
	}
	return nil
}

// QuietClients has client-go write what it complains about, such as an API server that a test took away, to a file.
func QuietClients(file string) error {
	log, err := os.Create(file)
	if err != nil {
		return err
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Parse([]string{"-logtostderr=false", "-stderrthreshold=FATAL"}); err != nil {
		return err
	}
	klog.SetOutput(log)
	return nil
}

// StartPods makes a runner for the Pods of a cluster; what the settings leave open is the cluster's.
func StartPods(ctx context.Context, c *cluster.Cluster, s pods.Settings) (*pods.Runner, error) {
	s.Client, s.Server, s.Node = c.Client(), c.Server, cluster.NodeAddress
	s.Network = netip.MustParsePrefix(cluster.PodNetwork)
	if s.Log == nil {
		s.Log = io.Discard
	}
	return pods.New(ctx, s)
}

// Log is the output of a Pod's container so far.
func (l *Lane) Log(namespace, pod, container string) string {
	text, err := os.ReadFile(l.Runner.LogFile(namespace, pod, container))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
