// Command sluice routes traffic into and between services: sluice serve runs it, sluice check and sluice explain answer
// questions about its configuration.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice.dev/sluice/model/document"
)

// The exit codes. A drain that was cut short, and warnings under --strict, are exitFailed; wrong usage or configuration is
// exitWrong.
const (
	exitFailed = 1
	exitWrong  = 2
)

// failure ends the program with a code. Its text may be empty when all was said.
type failure struct {
	code int
	err  error
}

func (f *failure) Error() string {
	if f.err == nil {
		return ""
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// wrong is a failure of usage or configuration.
func wrong(format string, args ...any) error { return &failure{exitWrong, fmt.Errorf(format, args...)} }

// streams are where a command reads its environment and writes.
type streams struct {
	out, err io.Writer
	env      func(name string) (string, bool)
}

func main() {
	os.Exit(run(context.Background(), os.Args, streams{os.Stdout, os.Stderr, os.LookupEnv}))
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	root := newRoot(s)
	if name := filepath.Base(args[0]); name == legacyName {
		root = newServe(s)
		root.Use, root.Version, root.Short = legacyName, version(), "Run Sluice, as sluice serve does"
		finish(root, s)
	}
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	if text := strings.TrimSpace(err.Error()); text != "" {
		fmt.Fprintln(s.err, "sluice: "+strings.ReplaceAll(text, "\n", "\nsluice: "))
	}
	var f *failure
	if errors.As(err, &f) {
		return f.code
	}
	return exitWrong // cobra's own errors are about usage
}

// legacyName is a name of the program under which it behaves as sluice serve.
const legacyName = "easegress-server"

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use: "sluice", Short: "Route traffic to services: Ingress manifests in, traffic out", Version: version(),
	}
	root.AddCommand(newServe(s), newCheck(s), newExplain(s), newVersion(s))
	finish(root, s)
	return root
}

// finish sets what every root command has in common.
func finish(root *cobra.Command, s streams) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
}

// flagError says which flag was meant.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if nearest := document.Nearest(unknown.GetSpecifiedName(), known); nearest != "" {
			return wrong("%w; did you mean --%s?", err, nearest)
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		err = fmt.Errorf("--%s: %w", invalid.GetFlag().Name, reason(err))
	}
	return wrong("%w; see %s --help", err, c.CommandPath())
}
