package main

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/internal/testkit"
)

// TestEveryLineWorks runs the demo, and every line that it prints to be tried.
func TestEveryLineWorks(t *testing.T) {
	for _, tool := range []string{"curl", "bash"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	binary := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.Command("go", "build", "-o", binary, "sluice.dev/sluice/cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	read, write := io.Pipe()
	o := options{
		sluice: binary, examples: "../../docs/examples/demo", out: write,
		http: testkit.FreePort(t), https: testkit.FreePort(t), api: testkit.FreePort(t),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- o.run(ctx)
		write.Close()
	}()
	var printed bytes.Buffer
	for line := make([]byte, 4096); !strings.Contains(printed.String(), "Ctrl-C"); {
		n, err := read.Read(line)
		printed.Write(line[:n])
		if err != nil {
			t.Fatalf("the demo ended: %v\n%s", <-ended, printed.String())
		}
	}
	go io.Copy(io.Discard, read)
	tries := []string{"This is ", "This is ", "This is blue.\nGET /cart/items?page=2", "This is blue", "HTTP/2 200", "Hello from blue", "503 Service", "404 Not", "Service default/soon", "kind: HTTPServer", "sluice_server_requests_total"}
	for _, line := range strings.Split(printed.String(), "\n") {
		if !strings.HasPrefix(line, "curl") {
			continue
		}
		limit, stop := context.WithTimeout(ctx, 20*time.Second)
		out, err := exec.CommandContext(limit, "bash", "-c", line).CombinedOutput()
		stop()
		if len(tries) == 0 {
			t.Fatalf("one line more than the test knows: %s", line)
		}
		if err != nil || !strings.Contains(string(out), tries[0]) {
			t.Errorf("%s\n%v, want %q in\n%s", line, err, tries[0], out)
		}
		tries = tries[1:]
	}
	if len(tries) > 0 {
		t.Errorf("no line for %q", tries)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestTakenPortsAreSaid(t *testing.T) {
	backend := testkit.NewBackend(t, "x")
	o := options{http: backend.Port, https: testkit.FreePort(t), api: backend.Port}
	err := o.checkPorts()
	if err == nil || !strings.Contains(err.Error(), "is taken") || !strings.Contains(err.Error(), "-http PORT") {
		t.Errorf("%v", err)
	}
	o.http = testkit.FreePort(t)
	if err := o.checkPorts(); err != nil || o.api == backend.Port {
		t.Errorf("%v, admin port %d", err, o.api)
	}
}
