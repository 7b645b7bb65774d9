package e2e

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// leaf is the serial number of the certificate that a host is shown.
func (s *sluice) leaf(ctx context.Context, host string) (string, error) {
	dialer := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(s.ip, "443"))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// reaching is an Ingress that names a Service and a Secret in whatever way.
func reaching(name, host, service, secret string) *netv1.Ingress {
	path := netv1.HTTPIngressPath{Path: "/", PathType: ptr.To(netv1.PathTypePrefix), Backend: netv1.IngressBackend{
		Service: &netv1.IngressServiceBackend{Name: service, Port: netv1.ServiceBackendPort{Name: "web"}},
	}}
	return &netv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: netv1.IngressSpec{
		IngressClassName: ptr.To("sluice"), TLS: []netv1.IngressTLS{{Hosts: []string{host}, SecretName: secret}},
		Rules: []netv1.IngressRule{{Host: host, IngressRuleValue: netv1.IngressRuleValue{HTTP: &netv1.HTTPIngressRuleValue{Paths: []netv1.HTTPIngressPath{path}}}}},
	}}
}

// TestG3_AnIngressReachesItsOwnNamespaceOnly, whatever it writes where a Service or a Secret is named: what the API server lets through is
// answered 503 and with the default certificate, and the other namespace does not notice.
func TestG3_AnIngressReachesItsOwnNamespaceOnly(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	victim, thief := namespace(ctx, t), nameOf(t)[:20]+"-thief"
	if err := shared.Namespace(ctx, thief); err != nil {
		t.Fatal(err)
	}
	apply(ctx, t, "", class)
	apply(ctx, t, victim, application)
	certificate(ctx, t, victim, "web", "victim.test", corev1.SecretTypeTLS)
	certificate(ctx, t, victim, "opaque", "victim.test", corev1.SecretTypeOpaque)
	apply(ctx, t, victim, ingress("web", "sluice", "victim.test", "web"))
	rolledOut(ctx, t, victim, "web")
	me := powerful(ctx, t, victim, "sluice")
	s := me.launch(t, victim, "--watch-namespace", victim, "--watch-namespace", thief).ready(ctx)
	s.serves(ctx, "victim.test", 200)
	own := map[string]bool{serialOf(ctx, t, victim, "web"): true, serialOf(ctx, t, victim, "opaque"): true}

	// An EndpointSlice for a Service of that name counts in its own namespace only.
	apply(ctx, t, thief, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: web, port: 9}]
endpoints: [{addresses: [10.250.0.9], conditions: {ready: true}}]
`)
	api := shared.Client().NetworkingV1().Ingresses(thief)
	taken := 0
	for i, form := range []string{"N", "V/N", "/V/N", "V.N", "N.V", "N.V.svc", "N.V.svc.cluster.local", "V:N", "V-N", "../V/N", "..%2fV%2fN", "V//N", "V\\N"} {
		for j, secret := range []string{"web", "opaque"} {
			named := func(name string) string { return strings.NewReplacer("V", victim, "N", name).Replace(form) }
			for k, in := range []*netv1.Ingress{
				reaching(fmt.Sprint("both-", i, "-", j), fmt.Sprintf("both%d-%d.test", i, j), named("web"), named(secret)),
				reaching(fmt.Sprint("secret-", i, "-", j), fmt.Sprintf("secret%d-%d.test", i, j), "none", named(secret)),
			} {
				if k == 1 && j == 1 && form == "N" {
					in.Annotations = map[string]string{"kubernetes.io/ingress.class": "sluice"}
					in.Spec.IngressClassName = nil
				}
				if _, err := api.Create(ctx, in, metav1.CreateOptions{}); err == nil {
					taken++
					host := in.Spec.Rules[0].Host
					s.serves(ctx, host, 503)
					if serial, err := s.leaf(ctx, host); err != nil || own[serial] {
						t.Errorf("%s, Secret %q: serial %s is the other namespace's, or error %v", host, in.Spec.TLS[0].SecretName, serial, err)
					}
				}
			}
		}
	}
	if taken < 10 {
		t.Errorf("the API server took %d Ingresses: the test does not test", taken)
	}
	for range 20 {
		if code, body := s.get(ctx, "victim.test", "/"); code != 200 {
			t.Fatalf("victim.test: %d %s", code, body)
		}
	}
	for _, r := range me.asked(t) { // nobody of the victim's names it
		if r.Resource == "secrets" && r.Namespace == victim && strings.Contains(r.URI, "opaque") {
			t.Errorf("asked for another namespace's Secret: %s", r.URI)
		}
	}
	t.Logf("%d Ingresses", taken)
}

// secrets makes Secrets of a namespace: what an Ingress of ours names, of both types, whole and broken; what one of another class names; and
// what nobody names. It returns what may be shown nowhere.
func secrets(ctx context.Context, t *testing.T, ns string) (private []string) {
	t.Helper()
	for name, kind := range map[string]corev1.SecretType{
		"typed": corev1.SecretTypeTLS, "opaque": corev1.SecretTypeOpaque, "foreign": corev1.SecretTypeOpaque, "unnamed": corev1.SecretTypeOpaque,
		"unnamed-typed": corev1.SecretTypeTLS,
	} {
		certificate(ctx, t, ns, name, name+".test", kind)
		secret, err := shared.Client().CoreV1().Secrets(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"tls.key", "tls.crt"} {
			lines := strings.Split(strings.TrimSpace(string(secret.Data[part])), "\n")
			private = append(private, lines[1], base64.StdEncoding.EncodeToString(secret.Data[part])[:60])
		}
	}
	for name, kind := range map[string]corev1.SecretType{"broken-typed": corev1.SecretTypeTLS, "broken-opaque": corev1.SecretTypeOpaque} {
		word := "private-words-of-" + name
		pem := "-----BEGIN " + word + "-----\n" + base64.StdEncoding.EncodeToString([]byte(word)) + "\n-----END " + word + "-----\n"
		text, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "type": kind,
			"data": map[string][]byte{"tls.crt": []byte(word + pem), "tls.key": []byte(pem + word), "password": []byte(word)},
		})
		if err != nil {
			t.Fatal(err)
		}
		apply(ctx, t, ns, string(text))
		private = append(private, word, base64.StdEncoding.EncodeToString([]byte(word)))
	}
	return private
}

// TestG5_SecretsAreReadOnlyWhenNamed, TLS Secrets apart, which are listed by their type; in one namespace when it is told one; and what they
// hold is shown nowhere.
func TestG5_SecretsAreReadOnlyWhenNamed(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	private := secrets(ctx, t, ns)
	apply(ctx, t, "", class)
	for _, name := range []string{"typed", "opaque", "broken-typed", "broken-opaque"} {
		apply(ctx, t, ns, ingress(name, "sluice", name+".test", name))
	}
	apply(ctx, t, ns, ingress("foreign", "other", "foreign.test", "foreign"))
	me := powerful(ctx, t, ns, "sluice")
	s := me.launch(t, ns, "--watch-namespace", ns, "--log-level", "debug", "--publish-status-address", "192.0.2.31").ready(ctx)
	for _, name := range []string{"typed", "opaque"} {
		want := serialOf(ctx, t, ns, name)
		eventually(ctx, t, "the certificate of "+name, 10*time.Second, func(ctx context.Context) (bool, error) {
			got, err := s.leaf(ctx, name+".test")
			return got == want, err
		})
	}
	status(ctx, t, ns, "broken-opaque", "192.0.2.31")
	shown := map[string]string{}
	eventually(ctx, t, "Events", 20*time.Second, func(ctx context.Context) (bool, error) {
		all, err := shared.Client().EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		text, err := json.Marshal(all)
		shown["Events"] = string(text)
		return strings.Contains(shown["Events"], `"name":"broken-typed`) && strings.Contains(shown["Events"], `"name":"broken-opaque`), err
	})

	onlyNamed(t, me, ns, "opaque", "broken-opaque", "typed", "broken-typed")
	for _, path := range []string{"/", "/readyz", "/metrics", "/debug/config", "/debug/problems", "/explain?url=https://broken-typed.test/", "/explain?url=https://opaque.test/"} {
		_, shown[path] = s.ask(ctx, path)
	}
	log, err := os.ReadFile(filepath.Join(shared.Dir, ns+".log"))
	if err != nil {
		t.Fatal(err)
	}
	shown["log"] = string(log)
	objects, err := shared.Client().NetworkingV1().Ingresses(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(objects)
	if err != nil {
		t.Fatal(err)
	}
	shown["Ingresses"] = string(text)
	shown["check"] = checkOf(ctx, t, me, ns)
	for where, text := range shown {
		if text == "" {
			t.Errorf("%s shows nothing at all", where)
		}
		for _, word := range private {
			if strings.Contains(text, word) {
				t.Errorf("%s shows what a Secret holds: %s", where, word)
			}
		}
	}
	for _, where := range []string{"log", "/debug/problems", "Events", "check"} {
		if !strings.Contains(shown[where], "broken-typed") || !strings.Contains(shown[where], "broken-opaque") {
			t.Errorf("%s does not say which Secrets are broken", where)
		}
	}
}

// onlyNamed fails the test where an account has asked for other Secrets than those of type TLS and those named, or beyond a namespace.
func onlyNamed(t *testing.T, c caller, ns string, names ...string) {
	t.Helper()
	for _, r := range c.asked(t) {
		if r.Resource != "secrets" {
			continue
		}
		if r.Namespace != ns {
			t.Errorf("asked for Secrets beyond its namespace: %s", r.URI)
		}
		if r.Name == "" && !strings.Contains(r.URI, "fieldSelector=type%3Dkubernetes.io%2Ftls") || r.Name != "" && !slices.Contains(names, r.Name) {
			t.Errorf("asked for Secrets that nobody named: %s", r.URI)
		}
	}
}

func checkOf(ctx context.Context, t *testing.T, c caller, ns string) string {
	t.Helper()
	_, out := run(ctx, t, "check", "--kubeconfig", c.kubeconfig, "--watch-namespace", ns)
	return out
}

// TestG11_OthersAreLeftAlone by two replicas: no write to an Ingress of another class, nor to its class, nor an Event on them; and where
// another program keeps writing to one of ours, it is not fought for.
func TestG11_OthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	foreign := strings.NewReplacer("{name: sluice}", "{name: g11-foreign}", "sluice.dev/ingress-controller", "other.test/controller").Replace(class)
	apply(ctx, t, "", strings.Replace(class, "{name: sluice}", "{name: g11-ours}", 1)+"---"+foreign)
	apply(ctx, t, ns, ingress("ours", "g11-ours", "ours.test"))
	apply(ctx, t, ns, ingress("theirs", "g11-foreign", "theirs.test", "missing"))
	apply(ctx, t, ns, ingress("unknown", "g11-unknown", "unknown.test", "missing"))
	writeStatus(ctx, t, ns, "theirs", "198.51.100.1")
	classes := shared.Client().NetworkingV1().IngressClasses()
	before, err := classes.Get(ctx, "g11-foreign", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var replicas []caller
	for _, name := range []string{"one", "two"} {
		c := powerful(ctx, t, ns, name)
		c.launch(t, ns+"-"+name, "--watch-namespace", ns, "--publish-status-address", "192.0.2.41").ready(ctx)
		replicas = append(replicas, c)
	}
	status(ctx, t, ns, "ours", "192.0.2.41")
	rounds := 10
	if long() {
		rounds = 60
	}
	for i := range rounds { // a program that thinks ours is its own
		writeStatus(ctx, t, ns, "ours", fmt.Sprint("198.51.100.", 2+i))
		<-time.After(time.Second)
	}
	writes := 0
	for _, c := range replicas {
		for _, r := range c.asked(t) {
			switch r.Verb {
			case "get", "list", "watch":
				continue
			}
			switch {
			case r.Resource == "leases", r.Resource == "events" && r.Namespace == ns:
			case r.Resource == "ingresses" && r.Subresource == "status" && r.Name == "ours":
				writes++
			default:
				t.Errorf("%s wrote: %s %s", c.user, r.Verb, r.URI)
			}
		}
	}
	if most := 8; writes < 2 || writes > most {
		t.Errorf("%d writes to our own Ingress in %d s, want 2 to %d", writes, rounds, most)
	}
	after, err := classes.Get(ctx, "g11-foreign", metav1.GetOptions{})
	if err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the other's class has changed: %v, %v", after, err)
	}
	status(ctx, t, ns, "theirs", "198.51.100.1")
	status(ctx, t, ns, "unknown", "")
	events, err := shared.Client().EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events.Items {
		if e.Regarding.Name == "theirs" || e.Regarding.Name == "unknown" {
			t.Errorf("an Event on the Ingress of another: %s", e.Note)
		}
	}
}
