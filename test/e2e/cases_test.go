package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// many makes Ingresses NAME-0 and so on of a class, several at a time.
func many(ctx context.Context, t *testing.T, ns, class, name string, count int) {
	t.Helper()
	const workers = 8
	var making sync.WaitGroup
	for worker := range workers {
		making.Go(func() {
			for i := worker; i < count; i += workers {
				apply(ctx, t, ns, ingress(fmt.Sprint(name, "-", i), class, fmt.Sprintf("%s%d.test", name, i)))
			}
		})
	}
	making.Wait()
}

// TestCase_A06_ThePublishedServiceChanges in address, to a name beside it, to nothing, and in type: 200 Ingresses follow within 2 s, with
// one write each, and keep the last address when there is none.
func TestCase_A06_ThePublishedServiceChanges(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	const count = 200
	apply(ctx, t, ns, "apiVersion: v1\nkind: Service\nmetadata: {name: edge}\nspec: {type: LoadBalancer, allocateLoadBalancerNodePorts: false, ports: [{port: 80}]}\n")
	balance(ctx, t, ns, "edge", "192.0.2.1")
	seen := watchStatus(ctx, t, ns)
	many(ctx, t, ns, "a06", "in", count)
	me := powerful(ctx, t, ns, "sluice")
	s := me.launch(t, ns, "--watch-namespace", ns, "--ingress-class", "a06", "--publish-service", ns+"/edge").ready(ctx)
	history := ""
	total := 0
	follow := func(want string) {
		t.Helper()
		begin := time.Now()
		history += " → " + want
		eventually(ctx, t, "every status to be "+want, 20*time.Second, func(context.Context) (bool, error) {
			for i := range count {
				if seen.of(fmt.Sprint("in-", i)) != history {
					return false, nil
				}
			}
			return true, nil
		})
		if took := time.Since(begin); took > 2*time.Second && total > 0 {
			t.Errorf("%s was written after %s", want, took)
		}
		total++
		for name, n := range me.statusWrites(t) {
			if n != total {
				t.Fatalf("%s: %s was written %d times, want %d", want, name, n, total)
			}
		}
	}
	follow("192.0.2.1")
	balance(ctx, t, ns, "edge", "192.0.2.9")
	follow("192.0.2.9")
	balance(ctx, t, ns, "edge", "lb.test", "192.0.2.9")
	follow("lb.test 192.0.2.9")
	balance(ctx, t, ns, "edge")
	eventually(ctx, t, "a warning", 5*time.Second, func(context.Context) (bool, error) {
		return strings.Count(s.Tail(), "the published Service gives no address; that of before stays") == 1, nil
	})
	<-time.After(2 * time.Second) // nothing may come
	changed, err := shared.Client().CoreV1().Services(ns).Patch(ctx, "edge", types.MergePatchType, []byte(`{"spec":{"type":"ClusterIP","allocateLoadBalancerNodePorts":null}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	follow(changed.Spec.ClusterIP)
}

// TestCase_A07_ControllersDoNotWriteOverEachOther: beside a controller that is not ours, and two of ours with a class each.
func TestCase_A07_ControllersDoNotWriteOverEachOther(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	classes := strings.NewReplacer("{name: sluice}", "{name: a07-pub}").Replace(class) + "---" +
		strings.NewReplacer("{name: sluice}", "{name: a07-pub2}").Replace(class) + "---" +
		strings.NewReplacer("{name: sluice}", "{name: a07-priv}", "sluice.dev/ingress-controller", "other.test/controller").Replace(class)
	apply(ctx, t, "", classes)
	apply(ctx, t, ns, ingress("pub", "a07-pub", "x.test"))
	apply(ctx, t, ns, ingress("priv", "a07-priv", "y.test"))
	apply(ctx, t, ns, ingress("pub2", "a07-pub2", "z.test"))
	writeStatus(ctx, t, ns, "priv", "198.51.100.1")
	seen := watchStatus(ctx, t, ns)
	one, two := powerful(ctx, t, ns, "one"), powerful(ctx, t, ns, "two")
	one.launch(t, ns+"-one", "--watch-namespace", ns, "--ingress-class", "a07-pub", "--publish-status-address", "192.0.2.1").ready(ctx)
	two.launch(t, ns+"-two", "--watch-namespace", ns, "--ingress-class", "a07-pub2", "--publish-status-address", "192.0.2.2").ready(ctx)
	status(ctx, t, ns, "pub", "192.0.2.1")
	status(ctx, t, ns, "pub2", "192.0.2.2")
	watching := 10 * time.Second
	if long() {
		watching = time.Minute
	}
	<-time.After(watching / 2)
	writeStatus(ctx, t, ns, "priv", "198.51.100.2")
	<-time.After(watching / 2)
	for name, want := range map[string]string{"pub": " → 192.0.2.1", "priv": "198.51.100.1 → 198.51.100.2", "pub2": " → 192.0.2.2"} {
		if got := seen.of(name); got != want {
			t.Errorf("the status of %s went %q, want %q", name, got, want)
		}
	}
	if a, b := fmt.Sprint(one.statusWrites(t)), fmt.Sprint(two.statusWrites(t)); a != "map[pub:1]" || b != "map[pub2:1]" {
		t.Errorf("writes %s and %s", a, b)
	}
}

// writeStatus is what another controller does.
func writeStatus(ctx context.Context, t *testing.T, ns, name, ip string) {
	t.Helper()
	body := fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, ip)
	if _, err := shared.Client().NetworkingV1().Ingresses(ns).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: "other"}, "status"); err != nil {
		t.Fatal(err)
	}
}

// TestCase_A08_ARoleInOneNamespace that grants what is served and nothing of the cluster: it starts, serves by class name, says once what it
// cannot know, asks for it seldom, and knows it as soon as it is granted.
func TestCase_A08_ARoleInOneNamespace(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	me := limited(ctx, t, ns, "sluice")
	grant(ctx, t, ns, `{kind: Role, name: objects}`, `
kind: Role
metadata: {name: objects}
rules:
- {apiGroups: ["", networking.k8s.io, discovery.k8s.io], resources: [services, secrets, ingresses, endpointslices], verbs: [get, list, watch]}
`)
	apply(ctx, t, ns, application)
	certificate(ctx, t, ns, "typed", "field.test", corev1.SecretTypeTLS)
	apply(ctx, t, ns, ingress("field", "a08-pub", "field.test", "typed"))
	annotated := strings.Replace(ingress("annotation", "x", "annotation.test"), "  ingressClassName: x\n", "", 1)
	apply(ctx, t, ns, strings.Replace(annotated, "{name: annotation}", "{name: annotation, annotations: {kubernetes.io/ingress.class: a08-pub}}", 1))
	rolledOut(ctx, t, ns, "web")
	s := me.launch(t, ns, "--watch-namespace", ns, "--ingress-class", "a08-pub").ready(ctx)
	begin := time.Now()
	s.serves(ctx, "field.test", 200)
	s.serves(ctx, "annotation.test", 200)
	if code, text := s.ask(ctx, "/readyz"); code != 200 || !strings.Contains(text, "IngressClass") {
		t.Errorf("readiness %d %s", code, text)
	}
	watching := 10 * time.Second
	if long() {
		watching = time.Minute
	}
	<-time.After(watching)
	refused := map[string]int{}
	for _, r := range me.asked(t) {
		if r.Code == 403 {
			refused[r.Resource]++
		}
		if r.Namespace != ns && r.Resource != "ingressclasses" {
			t.Errorf("asked outside its namespace: %s", r.URI)
		}
	}
	if refused["ingressclasses"] == 0 {
		t.Error("never asked for IngressClasses")
	}
	for resource, n := range refused { // a list and a watch each; after 1, 2, 4… seconds, at last every 30
		if most := 2 * (6 + int(time.Since(begin)/(20*time.Second))); n > most || resource != "ingressclasses" && resource != "leases" {
			t.Errorf("refused %s %d times in %s, want at most %d", resource, n, time.Since(begin), most)
		}
	}
	log := s.Tail()
	if n := strings.Count(log, "only Ingresses of classes named by --ingress-class or ingressClass are served"); n != 1 {
		t.Errorf("said %d times what it costs", n)
	}

	// The class turns out to be another controller's, as soon as that can be seen; and then it is ours.
	foreign := strings.NewReplacer("{name: sluice}", "{name: a08-pub}", "sluice.dev/ingress-controller", "other.test/controller").Replace(class)
	apply(ctx, t, "", foreign)
	grantClasses(ctx, t, ns)
	eventually(ctx, t, "the class to be seen", 90*time.Second, func(ctx context.Context) (bool, error) {
		code, _ := s.get(ctx, "field.test", "/")
		return code == 404, nil
	})
	s.serves(ctx, "annotation.test", 404)
	if err := shared.Delete(ctx, "", foreign); err != nil {
		t.Fatal(err)
	}
	apply(ctx, t, "", strings.Replace(class, "{name: sluice}", "{name: a08-pub}", 1))
	s.serves(ctx, "field.test", 200)
	s.serves(ctx, "annotation.test", 200)
	if code, text := s.ask(ctx, "/readyz"); code != 200 || strings.Contains(text, "IngressClass") {
		t.Errorf("readiness %d %s", code, text)
	}
}

// grant makes a role and binds it to the account sluice of a namespace.
func grant(ctx context.Context, t *testing.T, ns, reference, role string) {
	t.Helper()
	apply(ctx, t, ns, "apiVersion: rbac.authorization.k8s.io/v1"+role+fmt.Sprintf(`---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sluice}
roleRef: {apiGroup: rbac.authorization.k8s.io, %s
subjects: [{kind: ServiceAccount, name: sluice, namespace: %s}]
`, strings.TrimPrefix(reference, "{"), ns))
}

// grantClasses lets the account sluice of a namespace read IngressClasses.
func grantClasses(ctx context.Context, t *testing.T, ns string) {
	t.Helper()
	apply(ctx, t, "", strings.NewReplacer("NAMESPACE", ns).Replace(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAMESPACE-classes}
rules: [{apiGroups: [networking.k8s.io], resources: [ingressclasses], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAMESPACE-classes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: NAMESPACE-classes}
subjects: [{kind: ServiceAccount, name: sluice, namespace: NAMESPACE}]
`))
}
