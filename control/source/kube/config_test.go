package kube

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: one
clusters:
- {name: c1, cluster: {server: "https://10.0.0.1:6443"}}
- {name: c2, cluster: {server: "https://10.0.0.2:6443"}}
users:
- {name: u, user: {token: t}}
contexts:
- {name: one, context: {cluster: c1, user: u}}
- {name: two, context: {cluster: c2, user: u, namespace: edge}}
- {name: lost, context: {cluster: none, user: u}}
- {name: strange, context: {cluster: c1, user: v}}
`

func TestConnect(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("POD_NAMESPACE", "")
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, empty, garbage := write("good", kubeconfig), write("empty", ""), write("garbage", "kind: [")
	service := write("service", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n")
	unnamed := write("unnamed", strings.Replace(kubeconfig, "current-context: one\n", "", 1))
	for _, c := range []struct {
		name            string
		access          Access
		host, namespace string
		err             string
	}{
		{"current context", Access{Kubeconfig: good}, "https://10.0.0.1:6443", "default", ""},
		{"another context", Access{Kubeconfig: good, Context: "two"}, "https://10.0.0.2:6443", "edge", ""},
		{"another server", Access{Kubeconfig: good, MasterURL: "https://10.9.9.9"}, "https://10.9.9.9", "default", ""},
		{"server without a file", Access{MasterURL: "http://127.0.0.1:8001"}, "http://127.0.0.1:8001", "default", ""},
		{"no such file", Access{Kubeconfig: filepath.Join(folder, "none")}, "", "", "read the kubeconfig: open"},
		{"empty file", Access{Kubeconfig: empty}, "", "", "it names no cluster"},
		{"garbage", Access{Kubeconfig: garbage}, "", "", "read the kubeconfig " + garbage},
		{"another kind", Access{Kubeconfig: service}, "", "", "read the kubeconfig " + service + ": it is no kubeconfig"},
		{"no current context", Access{Kubeconfig: unnamed}, "", "", "it has no current-context; name one (--kube-context); it has lost, one, strange, two"},
		{"no current context, another named", Access{Kubeconfig: unnamed, Context: "two"}, "https://10.0.0.2:6443", "edge", ""},
		{"context without its user", Access{Kubeconfig: good, Context: "strange"}, "", "", `is of user "v", which it has not; it has u`},
		{"no such context", Access{Kubeconfig: good, Context: "three"}, "", "", `it has no context "three"; it has lost, one, strange, two`},
		{"context without its cluster", Access{Kubeconfig: good, Context: "lost"}, "", "", `"none"`},
		{"no Pod", Access{}, "", "", "it runs in none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server, err := c.access.Connect()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || server.config.Host != c.host || server.namespace != c.namespace {
				t.Errorf("server %+v, error %v", server, err)
			}
		})
	}
}

func TestG4_WhereTheServerIs(t *testing.T) {
	for host, want := range map[string]string{
		"https://10.0.0.1:6443":         "10.0.0.1:6443",
		"https://api.test/k8s/clusters": "api.test:443",
		"http://10.0.0.1":               "10.0.0.1:80",
		"https://[fd00::1]":             "[fd00::1]:443",
		"10.0.0.1:8080":                 "10.0.0.1:8080",
	} {
		server, err := Access{MasterURL: host}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		if got := server.Address(); got != want {
			t.Errorf("%s is at %q, want %q", host, got, want)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	for text, fine := range map[string]bool{
		"192.0.2.1": true, "2001:db8::1": true, "lb.example.com": true, "localhost": true,
		"": false, "192.0.2.256": false, "fe80::1%eth0": false, "LB.example.com": false, "a_b": false, "http://x": false, "x:80": false,
	} {
		if err := CheckAddress(text); (err == nil) != fine {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAddressesOfAService(t *testing.T) {
	headless := edge(corev1.ServiceTypeClusterIP, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone })
	if got := addressesOf(headless); len(got) != 0 {
		t.Errorf("a headless Service has %v", got)
	}
	both := balancer("192.0.2.1")
	both.Status.LoadBalancer.Ingress[0].Hostname = "lb.test"
	both.Spec.ExternalIPs = []string{"192.0.2.5", "192.0.2.5"}
	if got := addressesOf(both); len(got) != 2 || got[0] != (address{"192.0.2.1", "lb.test"}) {
		t.Errorf("addresses %v", got)
	}
}
