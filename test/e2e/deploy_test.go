package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/test/pods"
)

// call is one request, as the RBAC authoriser sees it.
type call struct{ verb, group, resource, name string }

func (c call) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", c.verb, c.group, c.resource, c.name))
}

// calls are those of a user, and those of them that were forbidden.
func calls(t *testing.T, user string) (all, forbidden map[call]int) {
	t.Helper()
	all, forbidden = map[call]int{}, map[call]int{}
	for _, r := range (caller{user: user}).asked(t) {
		c := call{r.Verb, r.Group, r.Resource, r.Name}
		if r.Subresource != "" {
			c.resource += "/" + r.Subresource
		}
		if all[c]++; r.Code == 403 {
			forbidden[c]++
		}
	}
	return all, forbidden
}

// unused are the grants of rules that no call needed. Servers that begin a watch with what there is are never asked for a list, and older
// ones are, so the two count as one.
func unused(rules []rbacv1.PolicyRule, all map[call]int) (left []string) {
	used := func(want call) bool {
		for c := range all {
			if c.group == want.group && c.resource == want.resource && (want.name == "" || c.name == want.name) && (c.verb == want.verb || want.verb == "list" && c.verb == "watch") {
				return true
			}
		}
		return false
	}
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						if c := (call{verb, group, resource, name}); !used(c) {
							left = append(left, c.String())
						}
					}
				}
			}
		}
	}
	slices.Sort(left)
	return left
}

// manifests applies files of the folder deploy, with Sluice for its image.
func manifests(ctx context.Context, t *testing.T, file string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	shared.Runner.SetImage("sluice.dev/sluice:latest", pods.Image{Command: []string{path}})
	text, err := os.ReadFile(filepath.Join("../../deploy", file))
	if err != nil {
		t.Fatal(err)
	}
	apply(ctx, t, "", string(text))
	t.Cleanup(func() {
		if err := shared.Delete(context.WithoutCancel(ctx), "", string(text)); err != nil {
			t.Error(err)
		}
	})
}

// balance gives a Service of type LoadBalancer addresses, as a cloud would.
func balance(ctx context.Context, t *testing.T, ns, name string, ips ...string) {
	t.Helper()
	eventually(ctx, t, "the Service's status", 10*time.Second, func(ctx context.Context) (bool, error) {
		s, err := shared.Client().CoreV1().Services(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		s.Status.LoadBalancer.Ingress = nil
		for _, ip := range ips {
			at := corev1.LoadBalancerIngress{IP: ip}
			if strings.HasSuffix(ip, ".test") {
				at = corev1.LoadBalancerIngress{Hostname: ip}
			}
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, at)
		}
		_, err = shared.Client().CoreV1().Services(ns).UpdateStatus(ctx, s, metav1.UpdateOptions{})
		return err == nil, nil
	})
}

// work lets a Sluice in Pods do all that it does: serve, write status, read Secrets of both kinds, tell of a problem, change leaders.
func work(ctx context.Context, t *testing.T, own, ns, class string) {
	t.Helper()
	rolledOut(ctx, t, own, "sluice")
	balance(ctx, t, own, "sluice", "192.0.2.1")
	certificate(ctx, t, ns, "typed", "a.test", corev1.SecretTypeTLS)
	certificate(ctx, t, ns, "opaque", "b.test", corev1.SecretTypeOpaque)
	apply(ctx, t, ns, application)
	apply(ctx, t, ns, ingress("a", class, "a.test", "typed"))
	apply(ctx, t, ns, ingress("b", class, "b.test", "opaque"))
	apply(ctx, t, ns, strings.ReplaceAll(ingress("broken", class, "c.test"), "name: web, port", "name: none, port"))
	rolledOut(ctx, t, ns, "web")
	for _, name := range []string{"a", "b", "broken"} {
		status(ctx, t, ns, name, "192.0.2.1")
	}
	for _, host := range []string{"a.test", "b.test"} {
		eventually(ctx, t, host+" to be served", 10*time.Second, func(ctx context.Context) (bool, error) {
			code, _ := fetch(ctx, "http://"+podAddress(ctx, t, own, "app.kubernetes.io/name=sluice", "8080")+"/", host)
			return code == 200, nil
		})
	}
	events := func(ctx context.Context) (int32, error) {
		all, err := shared.Client().EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		for _, e := range all.Items {
			if e.Regarding.Name == "broken" && e.Reason == "ServiceMissing" {
				if e.Series != nil {
					return e.Series.Count, nil
				}
				return 1, nil
			}
		}
		return 0, nil
	}
	eventually(ctx, t, "an Event", 20*time.Second, func(ctx context.Context) (bool, error) {
		n, err := events(ctx)
		return n == 1, err
	})
	lease := "sluice"
	if class != "" && own == ns {
		lease += "-" + class
	}
	l, err := shared.Client().CoordinationV1().Leases(own).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leader, _, _ := strings.Cut(*l.Spec.HolderIdentity, "_")
	if err := shared.Client().CoreV1().Pods(own).Delete(ctx, leader, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "the next leader to tell of the problem again", time.Minute, func(ctx context.Context) (bool, error) {
		n, err := events(ctx)
		return n == 2, err
	})
}

// TestDeployedForACluster runs deploy/sluice.yaml as it is, under Pod Security's restricted level and its own RBAC, and finds no request
// that it forbids and no grant that nobody needs.
func TestDeployedForACluster(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	manifests(ctx, t, "sluice.yaml")
	work(ctx, t, "sluice", ns, "sluice")
	all, forbidden := calls(t, "system:serviceaccount:sluice:sluice")
	if len(forbidden) > 0 {
		t.Errorf("forbidden: %v", forbidden)
	}
	cluster, err := shared.Client().RbacV1().ClusterRoles().Get(ctx, "sluice", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := shared.Client().RbacV1().Roles("sluice").Get(ctx, "sluice", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if left := unused(slices.Concat(cluster.Rules, own.Rules), all); len(left) > 0 {
		t.Errorf("granted for nothing: %v\ncalls %v", left, all)
	}
}

// TestDeployedForANamespace runs deploy/namespaced/sluice.yaml as it is, likewise; only IngressClasses, which no Role can grant, are refused.
func TestDeployedForANamespace(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	if err := shared.Namespace(ctx, "team"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	manifests(ctx, t, "namespaced/sluice.yaml")
	work(ctx, t, "team", "team", "sluice")
	annotated := strings.Replace(ingress("annotated", "x", "d.test"), "  ingressClassName: x\n", "", 1)
	apply(ctx, t, "team", strings.Replace(annotated, "{name: annotated}", "{name: annotated, annotations: {kubernetes.io/ingress.class: sluice}}", 1))
	status(ctx, t, "team", "annotated", "192.0.2.1")

	all, forbidden := calls(t, "system:serviceaccount:team:sluice")
	asked := 0
	for c, n := range forbidden {
		if asked += n; c.resource != "ingressclasses" {
			t.Errorf("forbidden: %s", c)
		}
	}
	if limit := 3*8 + int(time.Since(begin)/(10*time.Second)); asked == 0 || asked > limit {
		t.Errorf("asked %d times for IngressClasses, limit %d", asked, limit)
	}
	role, err := shared.Client().RbacV1().Roles("team").Get(ctx, "sluice", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if left := unused(role.Rules, all); len(left) > 0 {
		t.Errorf("granted for nothing: %v\ncalls %v", left, all)
	}
}
