package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice.dev/sluice/admin"
	"sluice.dev/sluice/model"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	*options
	method  string
	headers []string
	client  string
	output  string
}

func newExplain(s streams) *cobra.Command {
	o := &explainOptions{options: newOptions(append(objectSettings(), "api-addr")...)}
	c := &cobra.Command{
		Use: "explain URL", Short: "Say what a request would get, and why, step by step",
		Long: `Walk a request from the outside in: listener, certificate, host, path with the rules that lost and why, class, filters,
service, port, endpoints; and say what would be answered and, unless it is 200, which object and field to mend.
A running server is asked at its admin address; with --manifests the files are, with --kubeconfig the API server is.`,
		Example: `  sluice explain https://shop.example.com/cart
  sluice explain --manifests manifests/ -X POST -H 'Content-Type: text/plain' http://shop.example.com/cart`,
		Args: oneURL,
		RunE: func(c *cobra.Command, args []string) error {
			if o.output != "text" && o.output != "json" {
				return wrongOutput(o.output)
			}
			if err := o.complete(c.Flags(), s.env); err != nil {
				return err
			}
			q, err := o.question(args[0])
			if err != nil {
				return err
			}
			steps, err := o.ask(c.Context(), q, s)
			if err != nil {
				return err
			}
			return o.print(s.out, q, steps)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVarP(&o.method, "request", "X", http.MethodGet, "method of the request")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "'Name: value' of the request; repeatable")
	f.StringVar(&o.client, "client", "", "IP address that the request comes from")
	f.StringVar(&o.api, "api-addr", "localhost:2381", "admin address of the running server")
	f.StringSliceVarP(&o.manifests, "manifests", "m", nil, "ask these files and folders instead; repeatable")
	o.cluster.define(f)
	o.defineObjects(f)
	outputFlag(c, &o.output)
	return c
}

func oneURL(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return wrong("explain which request? name one URL: %s http://HOST/PATH", c.CommandPath())
	}
	return nil
}

func (o *explainOptions) question(text string) (*admin.Question, error) {
	v := map[string][]string{"url": {text}, "method": {o.method}, "header": o.headers}
	if o.client != "" {
		v["client"] = []string{o.client}
	}
	q, err := admin.ParseQuestion(v)
	if err != nil {
		return nil, wrong("%w", err)
	}
	return q, nil
}

func (o *explainOptions) ask(ctx context.Context, q *admin.Question, s streams) ([]model.Step, error) {
	if len(o.manifests) == 0 && o.cluster.kubeconfig == "" {
		return o.askServer(ctx, q)
	}
	l, err := o.load(ctx, o.manifests, s)
	if err != nil {
		return nil, err
	}
	d := dryRun(l, o.options)
	defer d.close()
	return d.explain(q), nil
}

func (o *explainOptions) askServer(ctx context.Context, q *admin.Question) ([]model.Step, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if o.api == off {
		return nil, wrong("--api-addr is off: name the admin address of a running server, or --manifests PATH")
	}
	address := o.api
	if host, port, err := net.SplitHostPort(address); err == nil {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			address = net.JoinHostPort("localhost", port) // others may not ask
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/explain?"+q.Values().Encode(), nil)
	if err != nil {
		return nil, wrong("--api-addr: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, wrong("no server answers at %s (%w); start one, name its --api-addr, or use --manifests PATH", address, errors.Unwrap(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return nil, wrong("read the answer of %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, wrong("%s answers %d: %s", address, response.StatusCode, strings.TrimSpace(string(body)))
	}
	var steps []model.Step
	if err := json.Unmarshal(body, &steps); err != nil {
		return nil, wrong("read the answer of %s: %w", address, err)
	}
	return steps, nil
}

func (o *explainOptions) print(w io.Writer, q *admin.Question, steps []model.Step) error {
	if o.output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(steps); err != nil {
			return fmt.Errorf("write the steps: %w", err)
		}
		return nil
	}
	fmt.Fprintf(w, "%s %s\n\n", oneLine(q.Method), oneLine(q.URL.String()))
	for _, s := range steps {
		printStep(w, s)
	}
	return nil
}

// printStep writes a step, what belongs to it indented below.
func printStep(w io.Writer, s model.Step) {
	mark := "ok"
	if !s.OK {
		mark = "FAIL"
	}
	fmt.Fprintf(w, "%-4s  %-11s  %s\n", mark, s.Stage, oneLine(s.Text))
	more := func(what, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-4s  %-11s  %s %s\n", "", "", what, oneLine(text))
		}
	}
	if !strings.Contains(s.Text, s.Origin) {
		more("of", s.Origin)
	}
	for _, lost := range s.Lost {
		more("-", lost)
	}
	more("mend:", s.Mend)
}

// oneLine keeps what objects and requests say from forging lines or speaking to the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 {
			return '\ufffd'
		}
		return r
	}, s)
}
