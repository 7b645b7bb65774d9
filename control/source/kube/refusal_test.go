package kube

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// refuse answers 403 to what is about a resource.
func refuse(resource string) func(request) int {
	return func(r request) int {
		if r.resource == resource {
			return 403
		}
		return 0
	}
}

func TestWithoutWhatIsNeededItIsNotReadyAndSaysWhy(t *testing.T) {
	for _, resource := range []string{"ingresses", "services", "endpointslices"} {
		for _, code := range []int{403, 404} {
			t.Run(resource, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a := newAPI(t, few()...)
					a.answer = func(r request) int {
						if r.resource == resource {
							return code
						}
						return 0
					}
					w := start(t, a, nil)
					later(10 * time.Minute)
					waiting, degraded := w.source.Ready()
					if w.synced() || len(waiting) != 1 || !strings.Contains(waiting[0], resource) || len(degraded) > 0 {
						t.Errorf("synced %v, waiting %q, degraded %q", w.synced(), waiting, degraded)
					}
					if n := w.logs.count("level=ERROR"); n != 1 {
						t.Errorf("said %d times:\n%s", n, w.logs)
					}
					a.set(func() { a.answer = nil })
					later(2 * time.Minute)
					if waiting, _ := w.source.Ready(); !w.synced() || len(waiting) > 0 {
						t.Errorf("synced %v, waiting %q", w.synced(), waiting)
					}
					w.expect(fewKeys)
				})
			})
		}
	}
}

// TestCase_A08_NoGrantForClasses: a Role in a namespace cannot grant IngressClasses. That is said once, costs a request a minute at most,
// and is over when the grant is there.
func TestCase_A08_NoGrantForClasses(t *testing.T) {
	for _, code := range []int{403, 404} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t, few()...)
			a.answer = func(r request) int {
				if r.resource == "ingressclasses" || r.namespace != "shop" {
					return code
				}
				return 0
			}
			w := start(t, a, func(s *Settings) { s.Namespaces = []string{"shop"} })
			if !w.synced() {
				t.Fatalf("not synced\n%s", w.logs)
			}
			w.expect("EndpointSlice shop/web-1, Ingress shop/web, Secret shop/tls, Service shop/web")
			later(10 * time.Second)
			if n := len(a.asked()); n > 10 {
				t.Errorf("%d requests in the first seconds: %v", n, a.asked())
			}
			later(5 * time.Minute)
			a.forgetRequests()
			later(10 * time.Minute)
			if n := a.count("watch ingressclasses") + a.count("list"); n > 20 || n < 5 {
				t.Errorf("%d requests in ten minutes: %v", n, a.asked())
			}
			_, degraded := w.source.Ready()
			if len(degraded) != 1 || !strings.Contains(degraded[0], "IngressClasses cannot be read") {
				t.Errorf("degraded %q", degraded)
			}
			if n := w.logs.count("level=WARN"); n != 1 || w.logs.count("there is no default class, and spec.controller of a class is not checked") != 1 {
				t.Errorf("said %d times:\n%s", n, w.logs)
			}
			a.set(func() { a.answer = nil })
			later(2 * time.Minute)
			w.expect(fewKeys)
			if _, degraded := w.source.Ready(); len(degraded) > 0 || w.logs.count("can be now") != 1 {
				t.Errorf("degraded %q, log %s", degraded, w.logs)
			}
		})
	}
}

func TestARevokedGrantKeepsWhatWasRead(t *testing.T) {
	for _, resource := range []string{"services", "secrets"} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(t, few()...)
			w := start(t, a, nil)
			a.set(func() { a.answer = refuse(resource) })
			a.endWatches()
			later(5 * time.Minute)
			w.expect(fewKeys)
			waiting, degraded := w.source.Ready()
			if len(waiting) > 0 || len(degraded) == 0 {
				t.Errorf("waiting %q, degraded %q", waiting, degraded)
			}
		})
	}
}

// TestG5_SecretsAreReadOnlyWhenNamed: those that are no certificates by type are read one by one, when an Ingress of ours names them, and
// forgotten when none does.
func TestG5_SecretsAreReadOnlyWhenNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t,
			secret("shop", "opaque", "Opaque"), secret("shop", "password", "Opaque"), secret("other", "opaque", "Opaque"), secret("edge", "default", "Opaque"),
			ingress("shop", "ours", "sluice", "opaque", "missing", "Not A Name"), ingress("other", "foreign", "foreign", "opaque"))
		w := start(t, a, func(s *Settings) {
			s.Secrets = []model.Key{{Namespace: "edge", Name: "default"}}
			s.Owns = func(store.View) func(*store.Object, *store.Ingress) bool {
				return func(_ *store.Object, in *store.Ingress) bool { return in.Class == "sluice" }
			}
		})
		if !w.synced() {
			t.Fatalf("not synced\n%s", w.logs)
		}
		const ingresses = "Ingress other/foreign, Ingress shop/ours, "
		w.expect(ingresses + "Secret edge/default, Secret shop/opaque")
		for _, r := range a.asked() {
			if r.resource == "secrets" && (r.name == "password" || r.namespace == "other" || r.namespace == "" && r.name != "") {
				t.Errorf("asked for %s", r)
			}
		}
		o := w.store.View().Object(secretKey("shop", "opaque"))
		if s := o.Value.(*store.Secret); string(s.Chain) != "chain" || string(s.Key) != "key" {
			t.Errorf("secret %+v", s)
		}
		a.put(secret("shop", "missing", "Opaque"))
		w.expect(ingresses + "Secret edge/default, Secret shop/missing, Secret shop/opaque")
		a.put(ingress("shop", "ours", "sluice", "password"))
		later(time.Second)
		w.expect(ingresses + "Secret edge/default, Secret shop/password")
		a.remove(secret("shop", "password", ""))
		w.expect(ingresses + "Secret edge/default")
		later(time.Second) // the watches of Secrets that nobody names end; the two that are named are waited for
		if a.open() > 5+2 {
			t.Errorf("%d watches are open", a.open())
		}
	})
}

// TestASecretChangesItsType: deleted and made anew, whichever watch hears of it first.
func TestASecretChangesItsType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "in", "sluice", "crt"), secret("shop", "crt", "Opaque"))
		w := start(t, a, nil)
		kinds := []corev1.SecretType{corev1.SecretTypeTLS, "Opaque", corev1.SecretTypeTLS, "Opaque"}
		for _, pause := range []time.Duration{0, time.Second} {
			for _, kind := range kinds {
				a.remove(secret("shop", "crt", ""))
				a.put(secret("shop", "crt", kind))
				later(pause)
			}
			later(time.Second)
			o := w.store.View().Object(secretKey("shop", "crt"))
			if o == nil || o.Value.(*store.Secret).Type != "Opaque" {
				t.Errorf("object %+v", o)
			}
		}
	})
}

// TestSecretsThatMayNotBeListed: those that are named are asked for one by one, which grants by name allow.
func TestSecretsThatMayNotBeListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t, ingress("shop", "a", "sluice", "granted"), ingress("shop", "b", "sluice", "hidden"),
			secret("shop", "granted", corev1.SecretTypeTLS), secret("shop", "hidden", corev1.SecretTypeTLS), secret("shop", "unnamed", corev1.SecretTypeTLS))
		a.answer = func(r request) int {
			if r.resource == "secrets" && r.name != "granted" {
				return 403
			}
			return 0
		}
		w := start(t, a, func(s *Settings) { s.Namespaces = []string{"shop"} })
		if !w.synced() {
			t.Fatalf("not synced\n%s", w.logs)
		}
		const ingresses = "Ingress shop/a, Ingress shop/b, "
		w.expect(ingresses + "Secret shop/granted")
		_, degraded := w.source.Ready()
		if len(degraded) != 2 || !strings.Contains(degraded[1], "single Secrets of namespace shop cannot be read: hidden") {
			t.Errorf("degraded %q", degraded)
		}
		later(10 * time.Minute)
		if n := w.logs.count("level=WARN"); n != 2 {
			t.Errorf("log %s", w.logs)
		}
		a.set(func() { a.answer = nil })
		later(3 * time.Minute)
		w.expect(ingresses + "Secret shop/granted, Secret shop/hidden, Secret shop/unnamed")
		if _, degraded := w.source.Ready(); len(degraded) > 0 || a.open() > 5 {
			t.Errorf("degraded %q, %d watches are open", degraded, a.open())
		}
		a.remove(secret("shop", "granted", ""))
		w.expect(ingresses + "Secret shop/hidden, Secret shop/unnamed")
	})
}
