// Command cluster runs a command against a real Kubernetes control plane with Pods and Sluice:
//
//	cluster [--image NAME=COMMAND]… [--no-sluice] [--sluice FILE] [--dir DIR] [FLAGS OF SLUICE] -- COMMAND…
//	cluster --prepare
//
// COMMAND runs in a network namespace of its own with KUBECONFIG (an administrator's) and SLUICE_ADDRESS set. Sluice listens there on
// ports 80 and 443 and publishes the address as the status of Ingresses; an IngressClass sluice is there. A COMMAND of an image that
// begins with test/ is a program of the test module, such as test/echo. The exit code is COMMAND's; 77 where the machine has no such
// namespaces, and 2 for wrong usage. With --prepare it only builds what tests need, which takes minutes the first time.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/pods"
)

const (
	exitFailed  = 1
	exitWrong   = 2
	exitSkipped = 77 // as automake and others have it
)

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\nusage: cluster [--image NAME=COMMAND]… [--no-sluice] [--sluice FILE] [--dir DIR] [FLAGS OF SLUICE] -- COMMAND…\n       cluster --prepare\n", err)
		os.Exit(exitWrong)
	}
	ctx := context.Background()
	if o.prepareOnly {
		if err := o.prepare(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
			os.Exit(exitFailed)
		}
		return
	}
	switch err := cluster.Enter(func() error { return o.prepare(ctx) }); {
	case errors.Is(err, cluster.ErrUnavailable):
		fmt.Fprintf(os.Stderr, "cluster: skipped: %v\n", err)
		os.Exit(exitSkipped)
	case err != nil:
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		os.Exit(exitFailed)
	}
	code, err := o.run(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
		code = exitFailed
	}
	os.Exit(code)
}

// options of the command line.
type options struct {
	images      []string // NAME=COMMAND
	noSluice    bool
	prepareOnly bool
	sluice      string   // a binary; empty: build it
	dir         string   // keys, data, logs; empty: a temporary one
	flags       []string // of Sluice
	command     []string
}

// parse takes our own flags out of those of Sluice; all stand before --.
func parse(args []string) (options, error) {
	var o options
	if slices.Equal(args, []string{"--prepare"}) {
		return options{prepareOnly: true}, nil
	}
	end := slices.Index(args, "--")
	if end < 0 || end == len(args)-1 {
		return o, fmt.Errorf("no COMMAND: write it behind --")
	}
	o.command = args[end+1:]
	for args = args[:end]; len(args) > 0; {
		name, value, joined := strings.Cut(args[0], "=")
		word := args[0]
		args = args[1:]
		switch name {
		case "--no-sluice":
			o.noSluice = true
			continue
		case "--image", "--sluice", "--dir":
		default:
			o.flags = append(o.flags, word)
			continue
		}
		if !joined {
			if len(args) == 0 {
				return o, fmt.Errorf("%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		switch name {
		case "--image":
			if _, _, err := pods.ParseImage(value); err != nil {
				return o, err
			}
			o.images = append(o.images, value)
		case "--sluice":
			o.sluice = value
		case "--dir":
			o.dir = value
		}
	}
	if o.noSluice && len(o.flags) > 0 {
		return o, fmt.Errorf("%s is for Sluice, which --no-sluice leaves out", o.flags[0])
	}
	return o, nil
}
