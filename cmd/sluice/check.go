package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
)

// checkOutput is how a check tells what it found.
type checkOutput struct {
	streams
	format string
	strict bool
}

func newCheck(s streams) *cobra.Command {
	o := newOptions(objectSettings()...)
	out := checkOutput{streams: s}
	c := &cobra.Command{
		Use: "check PATH…", Short: "Say what is wrong with files of objects, where, and how to mend it",
		Long: `Read the files, and the folders with all their YAML and JSON files, as serve would, and, with --kubeconfig, what an API server
has; print every problem as

  FILE:LINE KIND NAMESPACE/NAME FIELD: what is wrong; how to mend it

Exit codes: 0 nothing is wrong; 1 there are warnings and --strict is set; 2 there are errors.`,
		Example: "  sluice check manifests/\n  sluice check --strict -o json shop.yaml",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && o.cluster.kubeconfig == "" {
				return wrong("check what? name files or folders: %s PATH…", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if out.format != "text" && out.format != "json" {
				return wrongOutput(out.format)
			}
			if err := o.complete(c.Flags(), s.env); err != nil {
				return err
			}
			l, err := o.load(c.Context(), args, s)
			if err != nil {
				return err
			}
			return checkObjects(l, o, out)
		},
	}
	c.Flags().BoolVar(&out.strict, "strict", false, "warnings count: exit with 1")
	outputFlag(c, &out.format)
	o.cluster.define(c.Flags())
	o.defineObjects(c.Flags())
	return c
}

// checkObjects says what is wrong with what was read.
func checkObjects(l *loaded, o *options, out checkOutput) error {
	d := dryRun(l, o)
	defer d.close()
	problems := l.locate(append(d.problems(), translate.Unserved(l.view, d.options)...))
	if err := out.print(problems); err != nil {
		return err
	}
	var errors, warnings int
	for _, p := range problems {
		if p.Severity == model.Error {
			errors++
		} else {
			warnings++
		}
	}
	if out.format == "text" {
		fmt.Fprintf(out.err, "%s in %s: %s, %s\n", counted(l.objects, "object"), l.places(), counted(errors, "error"), counted(warnings, "warning"))
	}
	switch {
	case errors > 0:
		return &failure{code: exitWrong}
	case warnings > 0 && out.strict:
		return &failure{code: exitFailed}
	}
	return nil
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// problemJSON is how -o json writes a problem.
type problemJSON struct {
	File      string `json:"file,omitempty"`
	Line      int    `json:"line,omitempty"`
	Severity  string `json:"severity"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Field     string `json:"field,omitempty"`
	Reason    string `json:"reason"`
	Message   string `json:"message"`
	Mend      string `json:"mend,omitempty"`
}

func (out checkOutput) print(problems []located) error {
	if out.format == "text" {
		for _, p := range problems {
			fmt.Fprintln(out.out, oneLine(p.String()))
		}
		return nil
	}
	all := []problemJSON{}
	for _, p := range problems {
		key := p.Origin.Key
		all = append(all, problemJSON{p.file, p.line, p.Severity.String(), key.Kind, key.Namespace, key.Name, p.Origin.Field, p.Reason, p.Message, p.Mend})
	}
	encoder := json.NewEncoder(out.out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(all); err != nil {
		return fmt.Errorf("write the problems: %w", err)
	}
	return nil
}
