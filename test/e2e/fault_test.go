package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// long says that tests take the time that issues ask for.
func long() bool { return os.Getenv("SLUICE_TEST_LONG") != "" }

// serveWeb brings up the application with an Ingress for host with TLS, and a Sluice that serves it.
func serveWeb(ctx context.Context, t *testing.T, ns, host string) *sluice {
	t.Helper()
	apply(ctx, t, "", class)
	apply(ctx, t, ns, application)
	certificate(ctx, t, ns, "web", host, corev1.SecretTypeTLS)
	apply(ctx, t, ns, ingress("web", "sluice", host, "web"))
	rolledOut(ctx, t, ns, "web")
	s := launch(t, ns, "--publish-status-address", "192.0.2.7", "--watch-namespace", ns).ready(ctx)
	s.serves(ctx, host, 200)
	return s
}

// TestAPIServerAway: requests go on, readiness stays, and what changed, with all history compacted away, is there within 5 s of its
// return. A Sluice that starts meanwhile is not ready and says why, and is ready soon after.
func TestAPIServerAway(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	s := serveWeb(ctx, t, ns, "away.test")
	l := start(ctx, 100, ways(s, "away.test"))
	away := 20 * time.Second
	if long() {
		away = 2 * time.Minute
	}
	apply(ctx, t, ns, ingress("old", "sluice", "old.test"))
	s.serves(ctx, "old.test", 200)
	shared.StopAPIServer()
	late := launch(t, ns+"-late", "--watch-namespace", ns)
	for end := time.Now().Add(away); time.Now().Before(end); {
		if code, text := s.ask(ctx, "/readyz"); code != 200 {
			t.Errorf("readiness %d %s", code, text)
			break
		}
		<-time.After(200 * time.Millisecond)
	}
	if code, text := late.ask(ctx, "/readyz"); code == 200 || !strings.Contains(text, "connection refused") {
		t.Errorf("the one that started meanwhile: %d %s", code, text)
	}
	if code, text := s.ask(ctx, "/readyz"); code != 200 || !strings.Contains(text, "cannot be read since") {
		t.Errorf("readiness %d %s", code, text)
	}
	if err := shared.CompactEtcd(ctx); err != nil {
		t.Fatal(err)
	}
	if err := shared.StartAPIServer(ctx); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	if err := shared.Client().NetworkingV1().Ingresses(ns).Delete(ctx, "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(ctx, t, ns, ingress("new", "sluice", "new.test"))
	s.serves(ctx, "new.test", 200)
	s.serves(ctx, "old.test", 404)
	if took := time.Since(back); took > 5*time.Second {
		t.Errorf("caught up after %s", took)
	}
	late.ready(ctx).serves(ctx, "new.test", 200)
	l.stop(t)
	if n := strings.Count(s.Tail(), "the API server cannot be read"); n != 1 {
		t.Errorf("said %d times:\n%s", n, s.Tail())
	}
}

// TestCertificateRotation changes a certificate all the time under handshakes: the new one is shown within a second, none fails; what is
// no certificate leaves the last good one, and an Event says so.
func TestCertificateRotation(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	s := serveWeb(ctx, t, ns, "cert.test")
	shaking := &handshakes{t: t, address: s.ip + ":443", name: "cert.test"}
	shaking.start(ctx)
	rounds := 10
	if long() {
		rounds = 60
	}
	for range rounds {
		certificate(ctx, t, ns, "web", "cert.test", corev1.SecretTypeTLS)
		written, serial := time.Now(), serialOf(ctx, t, ns, "web")
		eventually(ctx, t, "the new certificate", 5*time.Second, func(context.Context) (bool, error) { return shaking.last() == serial, nil })
		if took := time.Since(written); took > time.Second {
			t.Errorf("the new certificate was shown after %s", took)
		}
		<-time.After(time.Until(written.Add(time.Second)))
	}
	before := shaking.last()
	garbage := []byte(`{"data":{"tls.crt":"Z2FyYmFnZQ=="}}`)
	if _, err := shared.Client().CoreV1().Secrets(ns).Patch(ctx, "web", types.MergePatchType, garbage, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "an Event on the Secret", 20*time.Second, func(ctx context.Context) (bool, error) {
		all, err := shared.Client().EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, e := range all.Items {
			if e.Regarding.Kind == "Secret" && e.Regarding.Name == "web" {
				if strings.Contains(e.Note, "garbage") {
					t.Errorf("the Event shows data: %s", e.Note)
				}
				return true, nil
			}
		}
		return false, nil
	})
	if now := shaking.last(); now != before {
		t.Errorf("serial %s after garbage, want that of before, %s", now, before)
	}
	shaking.stop()
}
