// Command scale measures Sluice with ten thousand Ingresses in a real API server, in a network namespace of its own:
//
//	scale [-sluice FILE] [-only PART,…] [-profile DIR] [-strict] [counts]
//
// It prints what goes on, then a table of figures with their bars. The exit code is 1 when an answer was wrong or a connection was
// dropped, or, with -strict, when any bar was missed; 77 where the machine has no such namespaces; 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/scale"
)

const (
	exitFailed  = 1
	exitWrong   = 2
	exitSkipped = 77 // as automake and others have it
)

func main() {
	s, strict, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "scale: %v\n", err)
		os.Exit(exitWrong)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := cluster.Enter(func() error { return scale.Prepare(ctx, s) }); {
	case errors.Is(err, cluster.ErrUnavailable):
		fmt.Fprintf(os.Stderr, "scale: skipped: %v\n", err)
		os.Exit(exitSkipped)
	case err != nil:
		fmt.Fprintf(os.Stderr, "scale: %v\n", err)
		os.Exit(exitFailed)
	}
	if err := run(ctx, s, strict); err != nil {
		fmt.Fprintf(os.Stderr, "scale: %v\n", err)
		os.Exit(exitFailed)
	}
}

func parse(args []string) (s scale.Settings, strict bool, err error) {
	s = scale.Defaults()
	for _, arg := range args {
		if strings.TrimLeft(arg, "-") == "small" {
			s = scale.Small()
		}
	}
	s.Progress = os.Stderr
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.Bool("small", false, "a thousand objects, less than a minute; other flags change that")
	f.StringVar(&s.Sluice, "sluice", "", "the binary to measure (built)")
	f.StringVar(&s.Dir, "dir", "", "folder for logs (a temporary one)")
	f.StringVar(&s.Profiles, "profile", "", "folder for profiles of Sluice while objects change")
	only := f.String("only", "", "parts to run: "+strings.Join(scale.Parts(), ",")+" (all; create is always done)")
	f.BoolVar(&strict, "strict", false, "fail when any bar is missed")
	f.IntVar(&s.Load.Namespaces, "namespaces", s.Load.Namespaces, "namespaces")
	f.IntVar(&s.Load.Hosts, "hosts", s.Load.Hosts, "hosts")
	f.IntVar(&s.Load.Ingresses, "ingresses", s.Load.Ingresses, "Ingresses")
	f.IntVar(&s.Load.Services, "services", s.Load.Services, "Services")
	f.IntVar(&s.Load.Endpoints, "endpoints", s.Load.Endpoints, "endpoints")
	f.IntVar(&s.Load.Certificates, "certificates", s.Load.Certificates, "certificates")
	f.IntVar(&s.Load.Busy, "busy", s.Load.Busy, "hosts that requests go to")
	f.IntVar(&s.Writers, "writers", s.Writers, "requests to the API server at once")
	f.IntVar(&s.Rate, "rate", s.Rate, "requests a second")
	f.IntVar(&s.Changes, "changes", s.Changes, "changes a second")
	f.DurationVar(&s.Window, "window", s.Window, "how long each busy figure is measured")
	f.DurationVar(&s.Settle, "settle", s.Settle, "how long memory is left alone before it is read")
	f.IntVar(&s.Routes, "routes", s.Routes, "routes added one after another")
	f.IntVar(&s.Cycles, "cycles", s.Cycles, "times that all is created and deleted")
	f.IntVar(&s.Nice, "nice", s.Nice, "of the control plane (0 to 19): with more, it gives way to Sluice and to requests")
	if err := f.Parse(args); err != nil {
		return s, strict, err
	}
	if f.NArg() > 0 {
		return s, strict, fmt.Errorf("%q is no flag", f.Arg(0))
	}
	if *only != "" {
		s.Only = strings.Split(*only, ",")
	}
	for _, path := range []*string{&s.Sluice, &s.Dir, &s.Profiles} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return s, strict, err
		}
	}
	return s, strict, s.Check()
}

// run measures and prints. Where it fails, the logs stay.
func run(ctx context.Context, s scale.Settings, strict bool) (err error) {
	if s.Dir == "" {
		if s.Dir, err = os.MkdirTemp("", "sluice-scale-"); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				fmt.Fprintf(os.Stderr, "logs: %s\n", s.Dir)
				return
			}
			err = os.RemoveAll(s.Dir)
		}()
	}
	for _, folder := range []string{s.Dir, s.Profiles} {
		if folder == "" {
			continue
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	report, err := scale.Run(ctx, s)
	report.Print(os.Stdout)
	switch {
	case err != nil:
		return err
	case report.Wrong():
		return errors.New("answers were wrong, or connections were dropped")
	case strict && report.Missed():
		return errors.New("bars were missed")
	}
	return nil
}
