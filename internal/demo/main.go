// Command demo starts three backends and Sluice on the example manifests, prints what to try, and runs until it is interrupted.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	sluice, examples string
	http, https, api int
	out              io.Writer
}

func main() {
	o := options{out: os.Stdout}
	flag.StringVar(&o.sluice, "sluice", "bin/sluice", "the binary of Sluice")
	flag.StringVar(&o.examples, "examples", "docs/examples/demo", "folder of the example manifests")
	flag.IntVar(&o.http, "http", 8080, "port for HTTP")
	flag.IntVar(&o.https, "https", 8443, "port for HTTPS")
	flag.IntVar(&o.api, "api", 2381, "port of the admin address; another one when it is taken")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) error {
	if err := o.checkPorts(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the manifests: %w", err)
	}
	defer os.RemoveAll(folder)
	ports, err := startBackends(ctx)
	if err != nil {
		return err
	}
	if err := o.writeManifests(folder, ports); err != nil {
		return err
	}
	sluice := exec.Command(o.sluice, "serve", "--manifests", filepath.Join(folder, "manifests"), "--http", local(o.http), "--https", local(o.https),
		"--api-addr", local(o.api), "--public-https-port", strconv.Itoa(o.https), "--log-level", "warn")
	sluice.Stdout, sluice.Stderr = os.Stderr, os.Stderr
	sluice.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt from the keyboard reaches the demo, which ends it
	if err := sluice.Start(); err != nil {
		return fmt.Errorf("start the server: %w; build it with: make build", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- sluice.Wait() }()
	if err := o.awaitReady(ctx, ended); err != nil {
		_ = sluice.Process.Kill() // it may have ended by itself
		return err
	}
	o.print(folder)
	select {
	case err := <-ended:
		return fmt.Errorf("the server ended by itself%s", because(err))
	case <-ctx.Done():
		fmt.Fprintln(o.out, "\nending")
		return end(sluice.Process, ended)
	}
}

// end ends Sluice: the second signal asks it not to wait for load balancers, of which there are none.
func end(process *os.Process, ended <-chan error) error {
	for {
		if process.Signal(syscall.SIGTERM) != nil {
			return nil // it has ended
		}
		select {
		case <-ended:
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// checkPorts says what is taken before anything is started.
func (o *options) checkPorts() error {
	for name, port := range map[string]int{"http": o.http, "https": o.https} {
		if listener, err := net.Listen("tcp", local(port)); err != nil {
			return fmt.Errorf("port %d is taken (%w): end what listens there, or choose another one: go run ./internal/demo -%s PORT", port, err, name)
		} else {
			listener.Close()
		}
	}
	listener, err := net.Listen("tcp", local(o.api))
	if err != nil {
		if listener, err = net.Listen("tcp", local(0)); err != nil {
			return fmt.Errorf("find a port for the admin address: %w", err)
		}
		o.api = listener.Addr().(*net.TCPAddr).Port
	}
	return listener.Close()
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// writeManifests copies the examples to where they can be edited, with the ports that the backends have, and adds a
// certificate.
func (o *options) writeManifests(folder string, ports map[string]int) error {
	manifests := filepath.Join(folder, "manifests")
	if err := os.Mkdir(manifests, 0o755); err != nil {
		return fmt.Errorf("make a folder for the manifests: %w", err)
	}
	var pairs []string
	for _, b := range backends() {
		pairs = append(pairs, "port: "+strconv.Itoa(b.port), "port: "+strconv.Itoa(ports[b.name]))
	}
	files, err := filepath.Glob(filepath.Join(o.examples, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no manifests in %s: run the demo from the folder of the repository", o.examples)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the examples: %w", err)
		}
		text = []byte(strings.NewReplacer(pairs...).Replace(string(text)))
		if err := os.WriteFile(filepath.Join(manifests, filepath.Base(file)), text, 0o644); err != nil {
			return fmt.Errorf("copy the examples: %w", err)
		}
	}
	return writeCertificate(filepath.Join(folder, "ca.pem"), filepath.Join(manifests, "certificate.yaml"))
}

func (o *options) awaitReady(ctx context.Context, ended <-chan error) error {
	client := &http.Client{Timeout: time.Second}
	for {
		if response, err := client.Get("http://" + local(o.api) + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the server ended at once%s", because(err))
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// print says what runs and what to try. Every line that begins with curl works as it stands.
func (o *options) print(folder string) {
	tls := fmt.Sprintf("--cacert %s/ca.pem", folder)
	at := func(host string, port int) string { return fmt.Sprintf("--resolve %s:%d:127.0.0.1", host, port) }
	fmt.Fprintf(o.out, `Sluice is ready.

  http://127.0.0.1:%[1]d    https://127.0.0.1:%[2]d    admin http://127.0.0.1:%[3]d
  hosts: shop.example.com (/, /cart, /soon), chat.example.com

Try, in another terminal:

# two Pods take turns
curl -sS %[5]s http://shop.example.com:%[1]d/
curl -sS %[5]s http://shop.example.com:%[1]d/
# a longer path wins
curl -sS -H 'Host: shop.example.com' 'http://127.0.0.1:%[1]d/cart/items?page=2'
# HTTPS, verified, over HTTP/2
curl -sS %[4]s %[6]s https://shop.example.com:%[2]d/cart
# HTTP is redirected for this host
curl -sS -L -i %[4]s %[7]s %[8]s http://chat.example.com:%[1]d/
# a WebSocket: the backend greets and says goodbye
curl -sS -i --http1.1 --output - %[4]s %[8]s -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==' https://chat.example.com:%[2]d/hello
# no Pod is there yet: 503; no such host: 404; and why
curl -sS -i -H 'Host: shop.example.com' http://127.0.0.1:%[1]d/soon
curl -sS -i -H 'Host: nobody.example.com' http://127.0.0.1:%[1]d/
curl -sS 'http://127.0.0.1:%[3]d/explain?url=http://shop.example.com/soon'
curl -sS http://127.0.0.1:%[3]d/debug/config
curl -sS http://127.0.0.1:%[3]d/metrics

The manifests are in %[9]s/manifests: edit them, changes are live at once.
Ctrl-C ends the demo.
`, o.http, o.https, o.api, tls, at("shop.example.com", o.http), at("shop.example.com", o.https), at("chat.example.com", o.http), at("chat.example.com", o.https), folder)
}
