package e2e

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// routes is the running config without where this replica listens.
func (s *sluice) routes(ctx context.Context) string {
	_, text := s.ask(ctx, "/debug/config")
	return strings.ReplaceAll(text, s.ip, "ADDRESS")
}

// TestReplicasAgreeWithoutTalking: one replica that saw every change and one that came later run the same config, conflicts of two Ingresses
// included, and neither waits for the other.
func TestReplicasAgreeWithoutTalking(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	apply(ctx, t, ns, application)
	rolledOut(ctx, t, ns, "web")
	first := launch(t, ns+"-first", "--watch-namespace", ns).ready(ctx)
	for _, name := range []string{"z", "a", "m"} { // all three want one path: the oldest has it
		apply(ctx, t, ns, ingress(name, "sluice", "agree.test"))
	}
	apply(ctx, t, ns, ingress("gone", "sluice", "gone.test"))
	first.serves(ctx, "gone.test", 200)
	if err := shared.Client().NetworkingV1().Ingresses(ns).Delete(ctx, "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second := launch(t, ns+"-second", "--watch-namespace", ns).ready(ctx)
	var one, two string
	eventually(ctx, t, "the replicas to agree", 10*time.Second, func(ctx context.Context) (bool, error) {
		one, two = first.routes(ctx), second.routes(ctx)
		return one == two && !strings.Contains(one, "gone.test"), nil
	})
	if !strings.Contains(one, "agree.test") {
		t.Errorf("no rule for agree.test in\n%s", one)
	}
	for _, s := range []*sluice{first, second} {
		s.serves(ctx, "agree.test", 200)
	}
}

// shown is the first DNS name of the certificate that a host is shown.
func (s *sluice) shown(ctx context.Context, host string) string {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}} //nolint:gosec // the certificate is what is looked at
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(s.ip, "443"))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	return strings.Join(conn.(*tls.Conn).ConnectionState().PeerCertificates[0].DNSNames, " ")
}

// solver is what cert-manager makes while a certificate is asked for: a path of the host, for a Service of its own, with the class in an
// annotation.
const solver = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: cm-acme-http-solver
  annotations: {kubernetes.io/ingress.class: sluice}
spec:
  rules:
  - host: acme.test
    http: {paths: [{path: /.well-known/acme-challenge/token, pathType: ImplementationSpecific, backend: {service: {name: solver, port: {number: 8089}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: solver}
spec:
  selector: {app: web}
  ports: [{port: 8089, targetPort: http}]
`

// TestCertificateThatComesLater: an Ingress that redirects to HTTPS names a Secret that is not there; the way of an ACME solver is open
// meanwhile, and the certificate is shown as soon as it is stored.
func TestCertificateThatComesLater(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, "", class)
	apply(ctx, t, ns, application)
	rolledOut(ctx, t, ns, "web")
	s := launch(t, ns, "--watch-namespace", ns).ready(ctx)
	apply(ctx, t, ns, strings.Replace(ingress("web", "sluice", "acme.test", "acme-tls"), "{name: web}", `{name: web, annotations: {sluice.dev/ssl-redirect: "true"}}`, 1))
	apply(ctx, t, ns, solver)
	const challenge = "/.well-known/acme-challenge/token"
	eventually(ctx, t, "the solver to answer", 10*time.Second, func(ctx context.Context) (bool, error) {
		code, body := s.get(ctx, "acme.test", challenge)
		return code == 200 && strings.Contains(body, challenge), nil
	})
	if name := s.shown(ctx, "acme.test"); name == "acme.test" {
		t.Error("a certificate is shown that nobody has stored")
	}
	certificate(ctx, t, ns, "acme-tls", "acme.test", corev1.SecretTypeTLS)
	eventually(ctx, t, "the certificate to be shown", 5*time.Second, func(ctx context.Context) (bool, error) {
		return s.shown(ctx, "acme.test") == "acme.test", nil
	})
	if err := shared.Delete(ctx, ns, solver); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "the solver's path to be the application's", 10*time.Second, func(ctx context.Context) (bool, error) {
		_, body := s.get(ctx, "acme.test", challenge) // the client follows the redirect, to a name that is none here
		return !strings.Contains(body, `"path"`), nil
	})
}

// TestControllersSideBySide: two of us with a class each, and an Ingress of a third one and one without a class: each serves, and writes
// status to, its own and nothing else.
func TestControllersSideBySide(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, ns, application)
	rolledOut(ctx, t, ns, "web")
	flags := func(class, address string) []string {
		return []string{"--watch-namespace", ns, "--ingress-class", class, "--publish-status-address", address}
	}
	public := launch(t, ns+"-public", flags("public", "192.0.2.21")...).ready(ctx)
	internal := launch(t, ns+"-internal", flags("internal", "192.0.2.22")...).ready(ctx)
	for _, class := range []string{"public", "internal", "foreign"} {
		apply(ctx, t, ns, ingress(class, class, class+".test"))
	}
	apply(ctx, t, ns, strings.Replace(ingress("none", "", "none.test"), "  ingressClassName: \n", "", 1))
	for _, c := range []struct {
		s    *sluice
		code map[string]int
	}{
		{public, map[string]int{"public.test": 200, "internal.test": 404, "foreign.test": 404, "none.test": 404}},
		{internal, map[string]int{"internal.test": 200, "public.test": 404, "foreign.test": 404, "none.test": 404}},
	} {
		for host, want := range c.code {
			c.s.serves(ctx, host, want)
		}
	}
	status(ctx, t, ns, "public", "192.0.2.21")
	status(ctx, t, ns, "internal", "192.0.2.22")
	for _, name := range []string{"foreign", "none"} {
		in, err := shared.Client().NetworkingV1().Ingresses(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(in.Status.LoadBalancer.Ingress) > 0 {
			t.Errorf("%s: status %v, error %v", name, in.Status, err)
		}
	}
	in, err := shared.Client().NetworkingV1().Ingresses(ns).Get(ctx, "public", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	in.Spec.IngressClassName = new("internal")
	if _, err := shared.Client().NetworkingV1().Ingresses(ns).Update(ctx, in, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	internal.serves(ctx, "public.test", 200)
	public.serves(ctx, "public.test", 404)
	status(ctx, t, ns, "public", "192.0.2.22")
}
