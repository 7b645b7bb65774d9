package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newServe(s streams) *cobra.Command {
	o := newOptions(append(settingKeys(), "config-file")...)
	c := &cobra.Command{
		Use: "serve", Short: "Route traffic as files of objects say", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(c.Flags(), s.env); err != nil {
				return err
			}
			p, err := newPlan(o)
			if err != nil {
				return err
			}
			if o.check {
				l, err := load(p.paths)
				if err != nil {
					return err
				}
				return checkObjects(l, o, checkOutput{streams: s, format: "text"})
			}
			return serve(c.Context(), o, p, s)
		},
	}
	o.define(c.Flags())
	c.SetUsageFunc(func(c *cobra.Command) error {
		fmt.Fprint(c.OutOrStderr(), serveUsage(c))
		return nil
	})
	c.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(c.OutOrStdout(), serveUsage(c)) })
	return c
}

func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return wrong("%s takes no argument, such as %q; see %s --help", c.CommandPath(), args[0], c.CommandPath())
	}
	return nil
}

// serveUsage fits two screens of 24 lines.
func serveUsage(c *cobra.Command) string {
	return fmt.Sprintf(`Read objects from files or a Kubernetes API server, and route traffic as they say: Ingress,
IngressClass, Service, EndpointSlice, Secret; from files HTTPServer, Pipeline, IngressController.
Changes are live at once. In a Pod, the API server is read when nothing else is named.

  %[1]s --manifests FOLDER
  %[1]s --kubeconfig ~/.kube/config --publish-status-address 192.0.2.1
  %[1]s -f easegress-server.yaml --initial-object-config-files controller.yaml

%s
What no flag gives may come from the environment (SLUICE_LOG_LEVEL for --log-level), then from the
server file. SIGTERM and SIGINT end gracefully, a second one at once. Exit codes: 0 everything in
flight was finished, 1 something was cut off, 2 wrong usage or configuration.
`, c.CommandPath(), flagUsages(c.LocalFlags()))
}

// flagUsages lists flags, one a line.
func flagUsages(flags *pflag.FlagSet) string {
	var b strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		name := "      --" + f.Name
		if f.Shorthand != "" {
			name = "  -" + f.Shorthand + ", --" + f.Name
		}
		if kind := kindOf(f); kind != "" {
			name += " " + kind
		}
		text := f.Usage
		if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" {
			text += " (" + f.DefValue + ")"
		}
		fmt.Fprintf(&b, "%-42s %s\n", name, text)
	})
	return b.String()
}

// kindOf names the value of a flag.
func kindOf(f *pflag.Flag) string {
	switch f.Name {
	case "manifests", "config-file", "log-dir", "kubeconfig":
		return "PATH"
	case "http", "https", "api-addr":
		return "ADDR"
	case "initial-object-config-files":
		return "F,…"
	case "trusted-proxies":
		return "CIDR,…"
	case "default-backend", "default-ssl-certificate", "publish-service", "publish-status-address":
		return ""
	case "public-https-port":
		return "N"
	case "ingress-class", "watch-namespace", "kube-context":
		return "NAME"
	}
	if f.Value.Type() == "bool" {
		return ""
	}
	return "WORD"
}
