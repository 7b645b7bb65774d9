package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"sluice.dev/sluice/test/cluster"
)

var unavailable error

func TestMain(m *testing.M) {
	if unavailable = cluster.Enter(prepare); unavailable != nil && !errors.Is(unavailable, cluster.ErrUnavailable) {
		fmt.Fprintln(os.Stderr, unavailable)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func prepare() error {
	_, err := cluster.Build(context.Background(), os.Stderr)
	return err
}

func start(t *testing.T, s cluster.Settings) (context.Context, *cluster.Cluster) {
	t.Helper()
	if unavailable != nil {
		t.Skip(unavailable)
	}
	s.Dir, s.Progress = t.TempDir(), t.Output()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	c, err := cluster.Start(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	return ctx, c
}

func TestControlPlane(t *testing.T) {
	ctx, c := start(t, cluster.Settings{Audit: true})
	t.Run("Networks", testNetworks)
	t.Run("Apply", func(t *testing.T) { testApply(ctx, t, c) })
	t.Run("Accounts", func(t *testing.T) { testAccounts(ctx, t, c) })
	t.Run("AwayAndCompacted", func(t *testing.T) { testAway(ctx, t, c) })
	audited, err := c.Audited()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, a := range audited {
		if a.User == "system:serviceaccount:team:reader" && a.Verb == "list" && a.Resource == "pods" && a.Namespace == "team" {
			seen[a.Code] = true
		}
	}
	if !seen[200] || !seen[403] {
		t.Errorf("the service account's requests were audited with %v, want 200 and 403", seen)
	}
}

// testNetworks listens on addresses that no device has.
func testNetworks(t *testing.T) {
	for _, address := range []string{"10.201.0.77:80", "10.202.3.4:443"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			continue
		}
		l.Close()
	}
}

const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: team}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: one}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

func testApply(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	if err := c.Apply(ctx, "team", objects); err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(ctx, "team", strings.ReplaceAll(objects, "one", "two")); err != nil {
		t.Fatal(err)
	}
	got, err := c.Client().CoreV1().ConfigMaps("team").Get(ctx, "settings", metav1.GetOptions{})
	if err != nil || got.Data["a"] != "two" {
		t.Errorf("applied twice: %v, %v", got.Data, err)
	}
	thing := "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: x}\n"
	err = cluster.Wait(ctx, "the new kind", func(ctx context.Context) (bool, error) {
		return c.Apply(ctx, "team", thing) == nil, nil // its path is served some moments after its definition
	})
	if err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := c.Delete(ctx, "team", thing); err != nil {
			t.Error(err)
		}
	}
	if err := c.Apply(ctx, "team", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\ndata: {a: [1]}\n"); err == nil || !strings.Contains(err.Error(), "ConfigMap bad") {
		t.Errorf("a wrong object: %v", err)
	}
}

// testAccounts reads with the token of a service account: RBAC is on.
func testAccounts(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	if err := c.Namespace(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	file, err := c.AccountKubeconfig(ctx, "team", "reader")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods("team").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("without a Role: %v, not forbidden", err)
	}
	role := `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [pods], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: team}]
`
	if err := c.Apply(ctx, "team", role); err != nil {
		t.Fatal(err)
	}
	err = cluster.Wait(ctx, "the Role to count", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Pods("team").List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// testAway takes the API server away and compacts etcd: what was written stays, old versions are gone.
func testAway(ctx context.Context, t *testing.T, c *cluster.Cluster) {
	maps := c.Client().CoreV1().ConfigMaps("default")
	first, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.Data = map[string]string{"a": "b"}
	if _, err := maps.Update(ctx, first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.StopAPIServer()
	if _, err := maps.Get(ctx, "kept", metav1.GetOptions{}); err == nil {
		t.Error("the API server answers after it was stopped")
	}
	if err := c.CompactEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	if got, err := maps.Get(ctx, "kept", metav1.GetOptions{}); err != nil || got.Data["a"] != "b" {
		t.Errorf("after the return: %v, %v", got, err)
	}
	watch, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err == nil {
		defer watch.Stop()
		err = apierrors.FromObject((<-watch.ResultChan()).Object)
	}
	if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("a watch from before the compaction: %v, not expired", err)
	}
}
