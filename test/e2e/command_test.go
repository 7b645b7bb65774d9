package e2e

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// run runs a subcommand and returns its exit code and all that it prints.
func run(ctx context.Context, t *testing.T, args ...string) (int, string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(ctx, path, args...)
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

// TestCheckAndExplainACluster: what is wrong in a cluster, and what a request would get, without a running Sluice.
func TestCheckAndExplainACluster(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	apply(ctx, t, ns, application)
	certificate(ctx, t, ns, "opaque", "web.test", corev1.SecretTypeOpaque)
	apply(ctx, t, ns, ingress("web", "sluice", "web.test", "opaque"))
	rolledOut(ctx, t, ns, "web")
	cluster := []string{"--kubeconfig", shared.Kubeconfig, "--watch-namespace", ns}
	if code, out := run(ctx, t, append([]string{"check"}, cluster...)...); code != 0 || !strings.Contains(out, "in the cluster: 0 errors, 0 warnings") {
		t.Errorf("check: %d\n%s", code, out)
	}
	apply(ctx, t, ns, strings.ReplaceAll(ingress("broken", "sluice", "broken.test"), "name: web, port", "name: wep, port"))
	code, out := run(ctx, t, append([]string{"check"}, cluster...)...)
	if want := "cluster Ingress " + ns + "/broken spec.rules[0].http.paths[0].backend.service.name: "; code != 2 || !strings.Contains(out, want) || !strings.Contains(out, `"wep"`) {
		t.Errorf("check: %d\n%s", code, out)
	}
	for url, want := range map[string]string{"https://web.test/x": "200", "http://broken.test/": "503"} {
		code, out := run(ctx, t, append([]string{"explain", url}, cluster...)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("explain %s: %d\n%s", url, code, out)
		}
	}
	limited, err := shared.AccountKubeconfig(ctx, ns, "nobody")
	if err != nil {
		t.Fatal(err)
	}
	code, out = run(ctx, t, "check", "--kubeconfig", limited)
	if code != 2 || !strings.Contains(out, "Ingresses of all namespaces cannot be read") || !strings.Contains(out, "is forbidden") {
		t.Errorf("check without rights: %d\n%s", code, out)
	}
}
