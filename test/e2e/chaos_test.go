package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"sluice.dev/sluice/test/chaos"
)

// TestChaos plays every script between Sluice and the API server while objects come, change and go: in the end the running config is
// the one that a Sluice makes which has only just read the API server, and until then it was never unready.
func TestChaos(t *testing.T) {
	files, err := filepath.Glob("../chaos/testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	t.Parallel()
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			ctx := shared.Need(t)
			ns := namespace(ctx, t)
			apply(ctx, t, "", class)
			script, err := chaos.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			for i := range script.Rules {
				script.Rules[i].Resources = []string{"ingresses", "services", "endpointslices", "secrets"}
			}
			proxy := behind(ctx, t, ns)
			s := launchAt(t, ns, place(), "--kubeconfig", proxy.kubeconfig, "--watch-namespace", ns).ready(ctx)
			proxy.Play(script)
			churn(ctx, t, ns, proxy.Proxy, s)
			fresh := launch(t, ns+"-fresh", "--watch-namespace", ns).ready(ctx)
			want := fresh.config(ctx)
			var got string
			defer func() {
				if t.Failed() {
					t.Logf("want\n%s\ngot\n%s", want, got)
				}
			}()
			eventually(ctx, t, "the config to be that of the API server", 10*time.Second, func(ctx context.Context) (bool, error) {
				got = s.config(ctx)
				return got == want, nil
			})
			if strings.Count(want, "pathElementPrefix") < 3 {
				t.Errorf("the test has shown little:\n%s", want)
			}
		})
	}
}

// config is what runs, without the addresses that it listens on.
func (s *sluice) config(ctx context.Context) string {
	s.t.Helper()
	code, text := s.ask(ctx, "/debug/config")
	if code != 200 {
		s.t.Fatalf("config: %d %s", code, text)
	}
	return strings.ReplaceAll(text, s.ip, "ADDRESS")
}

type misbehaving struct {
	*chaos.Proxy
	kubeconfig string
}

// behind starts a proxy, and makes a kubeconfig for an account that may do everything through it.
func behind(ctx context.Context, t *testing.T, ns string) misbehaving {
	t.Helper()
	server, err := shared.Authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := chaos.Start(chaos.Settings{Upstream: shared.Server, CA: shared.Authority.PEM, Listen: "127.0.0.1:0", TLS: server})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	token, err := shared.AccountToken(ctx, ns, "sluice")
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ns, Name: "sluice"}},
	}
	if _, err := shared.Client().RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	file, err := shared.WriteKubeconfig(ns, proxy.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	return misbehaving{proxy, file}
}

// churn changes objects past the proxy until all of the script has happened, and a while at least.
func churn(ctx context.Context, t *testing.T, ns string, proxy *chaos.Proxy, s *sluice) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; i < 200 || len(proxy.Open()) > 0; i++ {
		if ctx.Err() != nil {
			t.Fatalf("%v; still open: %v", ctx.Err(), proxy.Open())
		}
		if err := change(ctx, ns, random); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
		if code, text := s.ask(ctx, "/readyz"); code != 200 {
			t.Fatalf("readiness %d %s", code, text)
		}
	}
}

// change makes, replaces or deletes one object of some kind.
func change(ctx context.Context, ns string, random *rand.Rand) error {
	name := fmt.Sprint("o", random.IntN(6))
	meta := metav1.ObjectMeta{Name: name, Namespace: ns}
	gone := random.IntN(3) == 0
	c := shared.Client()
	switch random.IntN(4) {
	case 0:
		api := c.NetworkingV1().Ingresses(ns)
		_ = api.Delete(ctx, name, metav1.DeleteOptions{})
		if gone {
			return nil
		}
		backend := netv1.IngressBackend{Service: &netv1.IngressServiceBackend{Name: fmt.Sprint("o", random.IntN(6)), Port: netv1.ServiceBackendPort{Number: 80}}}
		path := netv1.HTTPIngressPath{Path: "/", PathType: ptr.To(netv1.PathTypePrefix), Backend: backend}
		in := &netv1.Ingress{ObjectMeta: meta, Spec: netv1.IngressSpec{
			IngressClassName: ptr.To("sluice"), TLS: []netv1.IngressTLS{{Hosts: []string{name + ".test"}, SecretName: name}},
			Rules: []netv1.IngressRule{{Host: name + ".test", IngressRuleValue: netv1.IngressRuleValue{HTTP: &netv1.HTTPIngressRuleValue{Paths: []netv1.HTTPIngressPath{path}}}}},
		}}
		_, err := api.Create(ctx, in, metav1.CreateOptions{})
		return err
	case 1:
		api := c.CoreV1().Services(ns)
		if gone {
			return api.Delete(ctx, name, metav1.DeleteOptions{})
		}
		_, err := api.Create(ctx, &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
		return err
	case 2:
		api := c.DiscoveryV1().EndpointSlices(ns)
		meta.Labels = map[string]string{discoveryv1.LabelServiceName: name}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(1000 + random.IntN(9)))}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.250.0.1"}}},
		}
		if gone {
			return api.Delete(ctx, name, metav1.DeleteOptions{})
		}
		_, err := api.Create(ctx, slice, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = api.Update(ctx, slice, metav1.UpdateOptions{})
		}
		return err
	}
	api := c.CoreV1().Secrets(ns)
	_ = api.Delete(ctx, name, metav1.DeleteOptions{})
	if gone {
		return nil
	}
	kind := []corev1.SecretType{corev1.SecretTypeTLS, corev1.SecretTypeOpaque}[random.IntN(2)]
	data := map[string][]byte{"tls.crt": []byte(fmt.Sprint(random.IntN(1000))), "tls.key": nil}
	_, err := api.Create(ctx, &corev1.Secret{ObjectMeta: meta, Type: kind, Data: data}, metav1.CreateOptions{})
	return err
}
