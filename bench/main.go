// Command bench measures Sluice beside nginx, HAProxy and a plain net/http reverse proxy in one run, and Sluice alone with ten
// thousand Ingresses from files. Machines are shared and noisy, so it prints CPU microseconds per request and medians of
// ratios taken within a round, not absolute rates. It needs nginx, haproxy and wrk.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

type options struct {
	sluice  string
	dir     string // for configuration files and logs
	rounds  int
	seconds int
	conns   int
	size    int
}

func main() {
	var o options
	role := flag.String("role", "", "internal: run as backend or nethttp")
	port := flag.Int("port", 0, "internal: the port of that role")
	only := flag.String("only", "", "one part: proxy or files")
	flag.StringVar(&o.sluice, "sluice", "bin/sluice", "the binary to measure")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; each measures every program once")
	flag.IntVar(&o.seconds, "seconds", 4, "seconds of load a measurement")
	flag.IntVar(&o.conns, "conns", 64, "client connections")
	flag.IntVar(&o.size, "size", 128, "bytes of a response body")
	flag.Parse()
	if *role != "" {
		check(play(*role, *port, o.size))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	check(measure(ctx, o, *only))
}

func measure(ctx context.Context, o options, only string) error {
	var err error
	if o.sluice, err = filepath.Abs(o.sluice); err != nil {
		return err
	}
	if o.dir, err = os.MkdirTemp("", "sluice-bench"); err != nil {
		return err
	}
	defer os.RemoveAll(o.dir)
	parts := []struct {
		name string
		run  func(context.Context, options) error
	}{{"proxy", measureProxies}, {"files", measureFiles}}
	for _, part := range parts {
		if only != "" && only != part.name {
			continue
		}
		start := time.Now()
		fmt.Printf("== %s\n", part.name)
		if err := part.run(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Printf("== %s took %s\n\n", part.name, time.Since(start).Round(time.Second))
	}
	return nil
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
