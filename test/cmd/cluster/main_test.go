package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]options{
		"-- a -- --b":        {command: []string{"a", "--", "--b"}},
		"--image a=b c -- d": {images: []string{"a=b"}, flags: []string{"c"}, command: []string{"d"}}, // c is for Sluice to refuse
		"--image a=b --image=c=d=e --no-sluice --dir x --sluice=y -- z": {images: []string{"a=b", "c=d=e"}, noSluice: true, dir: "x", sluice: "y", command: []string{"z"}},
		"--ingress-class x --log-level=debug -- z":                      {flags: []string{"--ingress-class", "x", "--log-level=debug"}, command: []string{"z"}},
	} {
		got, err := parse(strings.Fields(line))
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{})); err != nil || diff != "" {
			t.Errorf("%s: %v %s", line, err, diff)
		}
	}
	for line, problem := range map[string]string{
		"":                           "no COMMAND",
		"a":                          "no COMMAND",
		"--":                         "no COMMAND",
		"--image -- a":               "--image needs a value",
		"--image a -- b":             "NAME=COMMAND",
		"--no-sluice --http=:1 -- a": "--http=:1 is for Sluice",
	} {
		if _, err := parse(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v, want %q", line, err, problem)
		}
	}
}

// build builds this program.
func build(ctx context.Context, t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "cluster")
	buildAt(ctx, t, program)
	return program
}

func buildAt(ctx context.Context, t *testing.T, program string) {
	t.Helper()
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// run runs it, and returns its output and exit code, or skips the test.
func run(ctx context.Context, t *testing.T, program string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(ctx, program, args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %s", err, out)
	}
	if cmd.ProcessState.ExitCode() == exitSkipped {
		t.Skip(string(out))
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestCommand runs the program as make cluster does.
func TestCommand(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	script := `
set -e
test "$SLUICE_ADDRESS" = 10.202.0.10
grep -q 'server: "https://10.202.0.1:6443"' "$KUBECONFIG"
token=$(sed -n 's/.*token: "\(.*\)".*/\1/p' "$KUBECONFIG")
api() { curl -sk -H "Authorization: Bearer $token" -H "Content-Type: application/yaml" "$@"; }
api https://10.202.0.1:6443/api/v1/namespaces/default/pods -o /dev/null --data-binary '
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: "example.org/web:v1", args: [--pod-name, "from $(NAME)"], env: [{name: NAME, value: args}]}]}'
for i in $(seq 300); do
  address=$(api https://10.202.0.1:6443/api/v1/namespaces/default/pods/web | sed -n 's/.*"podIP": "\(.*\)".*/\1/p')
  test -n "$address" && curl -s "http://$address:3000/hello" && exit 3
  sleep 0.1
done
`
	out, code := run(ctx, t, build(ctx, t), "--no-sluice", "--dir", t.TempDir(), "--image", "example.org/web*=test/echo --service-name x", "--", "sh", "-c", script)
	for _, part := range []string{`"path": "/hello"`, `"pod": "from args"`, `"service": "x"`} {
		if !strings.Contains(out, part) {
			t.Errorf("no %s in %s", part, out)
		}
	}
	if code != 3 {
		t.Errorf("exit code %d, want the command's, 3: %s", code, out)
	}
}

// TestSluice gives a program in the place of Sluice what Sluice is given, and waits for it.
func TestSluice(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	dir := t.TempDir()
	stand := filepath.Join(dir, "stand-in")
	text := "#!/bin/sh\necho \"$@\" > " + dir + "/args\nexec " + dir + "/programs/echo --http-port 2381\n"
	if err := os.WriteFile(stand, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code := run(ctx, t, build(ctx, t), "--dir", dir, "--sluice", stand, "--ingress-class", "sluice", "--", "sh", "-c", "cat "+dir+"/args; curl -s localhost:2381/readyz; kill -TERM $$")
	for _, part := range []string{
		"serve --kubeconfig " + dir + "/control-plane/admin.kubeconfig --http 10.202.0.10:80 --https 10.202.0.10:443 --publish-status-address 10.202.0.10 ",
		" --ingress-class sluice\n", `"path": "/readyz"`,
	} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in %s", part, out)
		}
	}
	if code != 128+15 {
		t.Errorf("exit code %d, want that of SIGTERM", code)
	}
	stand = filepath.Join(dir, "ends")
	if err := os.WriteFile(stand, []byte("#!/bin/sh\necho unknown flag\nexit 2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, code = run(ctx, t, build(ctx, t), "--sluice", stand, "--", "true")
	if code != exitFailed || !strings.Contains(out, "it ended with exit code 2") || !strings.Contains(out, "unknown flag") {
		t.Errorf("Sluice that ends: %d, %s", code, out)
	}
}

// TestUnavailable says what is missing where the machine has no namespaces.
func TestUnavailable(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), build(t.Context(), t), "--", "true")
	cmd.Env = []string{"PATH=/nowhere"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitSkipped || !strings.Contains(string(out), "skipped: no test namespace on this machine: the program ip") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestElsewhere runs a program that stands in the tree from a folder outside it: COMMAND runs in that folder.
func TestElsewhere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	inTree, err := os.MkdirTemp("../..", ".elsewhere-") //nolint:usetesting // it must be in the tree
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(inTree) })
	program, err := filepath.Abs(filepath.Join(inTree, "cluster"))
	if err != nil {
		t.Fatal(err)
	}
	buildAt(ctx, t, program)
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
	if out, code := run(ctx, t, program, "--no-sluice", "--", "sh", "-c", "pwd; exit 9"); code != 9 || !strings.Contains(out, folder+"\n") {
		t.Errorf("exit code %d, %s", code, out)
	}
}
