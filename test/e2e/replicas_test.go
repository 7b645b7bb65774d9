package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// rival is one of 48 Ingresses that want the same hosts, paths, certificates and default backends.
func rival(ns string, random *rand.Rand) *netv1.Ingress {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	service := func() netv1.IngressBackend {
		return netv1.IngressBackend{Service: &netv1.IngressServiceBackend{Name: fmt.Sprint("s", random.IntN(4)), Port: netv1.ServiceBackendPort{Number: 80}}}
	}
	in := &netv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("in-", random.IntN(48)), Namespace: ns}}
	in.Spec.IngressClassName = ptr.To(pick("sluice", "sluice", "sluice", "other"))
	if random.IntN(4) == 0 {
		in.Spec.DefaultBackend = ptr.To(service())
	}
	for range 1 + random.IntN(3) {
		host := pick("a.test", "b.test", "c.test", "*.test", "*.b.test", "")
		var paths []netv1.HTTPIngressPath
		for range 1 + random.IntN(3) {
			kind := []netv1.PathType{netv1.PathTypeExact, netv1.PathTypePrefix, netv1.PathTypeImplementationSpecific}[random.IntN(3)]
			paths = append(paths, netv1.HTTPIngressPath{Path: pick("/", "/x", "/x/", "/x/y"), PathType: &kind, Backend: service()})
		}
		in.Spec.Rules = append(in.Spec.Rules, netv1.IngressRule{Host: host, IngressRuleValue: netv1.IngressRuleValue{HTTP: &netv1.HTTPIngressRuleValue{Paths: paths}}})
		if host != "" && random.IntN(2) == 0 {
			in.Spec.TLS = append(in.Spec.TLS, netv1.IngressTLS{Hosts: []string{host}, SecretName: fmt.Sprint("c", random.IntN(4))})
		}
	}
	return in
}

// rivalry makes, changes and deletes Ingresses and what they name.
func rivalry(ctx context.Context, t *testing.T, ns string, random *rand.Rand) {
	c := shared.Client()
	for range 60 {
		var err error
		name := fmt.Sprint("s", random.IntN(4))
		switch random.IntN(8) {
		case 0:
			err = c.CoreV1().Services(ns).Delete(ctx, name, metav1.DeleteOptions{})
		case 1:
			service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Port: 80}}}}
			_, err = c.CoreV1().Services(ns).Create(ctx, service, metav1.CreateOptions{})
		case 2:
			err = c.NetworkingV1().Ingresses(ns).Delete(ctx, rival(ns, random).Name, metav1.DeleteOptions{})
		default:
			in := rival(ns, random)
			if _, err = c.NetworkingV1().Ingresses(ns).Create(ctx, in, metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
				_, err = c.NetworkingV1().Ingresses(ns).Update(ctx, in, metav1.UpdateOptions{})
			}
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
			t.Error(err)
			return
		}
	}
}

// TestReplicasAgreeOnRivals: dozens of Ingresses that want the same hosts, paths and certificates come, change and go in random order. Two
// replicas that saw all of it, each in its own order and batches, run the same config, which is that of one that has only just read
// what the API server has.
func TestReplicasAgreeOnRivals(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	for i, host := range []string{"a.test", "b.test", "*.test", "*.b.test"} {
		certificate(ctx, t, ns, fmt.Sprint("c", i), host, corev1.SecretTypeTLS)
	}
	replicas := []*sluice{launch(t, ns+"-one", "--watch-namespace", ns).ready(ctx), launch(t, ns+"-two", "--watch-namespace", ns).ready(ctx)}
	var all sync.WaitGroup
	for worker := range uint64(4) {
		all.Go(func() { rivalry(ctx, t, ns, rand.New(rand.NewPCG(3, worker))) })
	}
	all.Wait()
	want := launch(t, ns+"-fresh", "--watch-namespace", ns).ready(ctx).config(ctx)
	for i, s := range replicas {
		var got string
		eventually(ctx, t, fmt.Sprintf("replica %d to have the config of a fresh one", i), 10*time.Second, func(ctx context.Context) (bool, error) {
			got = s.config(ctx)
			return got == want, nil
		})
	}
	problems := ""
	for i, s := range replicas {
		_, text := s.ask(ctx, "/debug/problems")
		if i > 0 && text != problems {
			t.Errorf("the replicas tell different problems:\n%s\n%s", problems, text)
		}
		problems = text
	}
	for _, reason := range []string{"PathTaken", "CertificateTaken", "DefaultBackendTaken"} {
		if !strings.Contains(problems, reason) {
			t.Errorf("there was no %s: the test shows little\n%s", reason, problems)
		}
	}
}
