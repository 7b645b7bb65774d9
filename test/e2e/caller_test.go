package e2e

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/test/cluster"
)

// caller is an account of the API server, so that what it asks for can be told from what others do.
type caller struct {
	kubeconfig string // its namespace is the test's
	user       string
}

// powerful makes an account that may do everything.
func powerful(ctx context.Context, t *testing.T, ns, name string) caller {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-" + name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: name}},
	}
	if _, err := shared.Client().RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return limited(ctx, t, ns, name)
}

// limited makes an account that may do what roles say.
func limited(ctx context.Context, t *testing.T, ns, name string) caller {
	t.Helper()
	file, err := shared.AccountKubeconfig(ctx, ns, name)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, file)
	return caller{file, "system:serviceaccount:" + ns + ":" + name}
}

// launch starts a Sluice that is the account.
func (a caller) launch(t *testing.T, name string, flags ...string) *sluice {
	t.Helper()
	return launchAt(t, name, place(), append([]string{"--kubeconfig", a.kubeconfig}, flags...)...)
}

// asked is what the account has asked the API server for.
func (a caller) asked(t *testing.T) (all []cluster.Audited) {
	t.Helper()
	audited, err := shared.Audited()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range audited {
		if r.User == a.user {
			all = append(all, r)
		}
	}
	return all
}

// statusWrites counts, by name, how often the account has written the status of an Ingress.
func (a caller) statusWrites(t *testing.T) map[string]int {
	t.Helper()
	writes := map[string]int{}
	for _, r := range a.asked(t) {
		if r.Verb == "patch" && r.Resource == "ingresses" && r.Subresource == "status" && r.Code == 200 {
			writes[r.Name]++
		}
	}
	return writes
}
