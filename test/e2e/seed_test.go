package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/test/pods"
)

// account is what the documents leave out: their service account, which may read one namespace and nothing else.
const account = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: easegress-ingress-controller}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: easegress-ingress-controller}
rules:
- {apiGroups: ["", networking.k8s.io, discovery.k8s.io], resources: [services, secrets, ingresses, endpointslices], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: easegress-ingress-controller}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: easegress-ingress-controller}
subjects: [{kind: ServiceAccount, name: easegress-ingress-controller, namespace: default}]
`

const hello = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: hello}
spec:
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      containers:
      - name: echo
        image: IMAGE
        env: [{name: HTTP_PORT, value: "50001"}]
        readinessProbe: {httpGet: {path: /health, port: 50001}, periodSeconds: 1}
`

// TestEasegressDocuments applies what users of Easegress have, unchanged: the ConfigMap, the Deployment with its command line and paths, the
// NodePort Service, a backend's Service and the Ingress.
func TestEasegressDocuments(t *testing.T) {
	ctx := shared.Need(t)
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	shared.Runner.SetImage("megaease/easegress:latest", pods.Image{Files: map[string]string{"/opt/easegress/bin/easegress-server": path}})
	documents, err := os.ReadFile("testdata/easegress.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := account + "---" + hello + "---\n" + string(documents)
	apply(ctx, t, "default", all)
	t.Cleanup(func() {
		if err := shared.Delete(context.WithoutCancel(ctx), "default", all); err != nil {
			t.Error(err)
		}
	})
	rolledOut(ctx, t, "default", "hello")
	rolledOut(ctx, t, "default", "easegress")
	var body string
	eventually(ctx, t, "the answer of hello-service", 20*time.Second, func(ctx context.Context) (bool, error) {
		var code int
		code, body = fetch(ctx, "http://"+podAddress(ctx, t, "default", "app=easegress-ingress", "8080")+"/", "www.example.com")
		return code == 200, nil
	})
	if !strings.Contains(body, "www.example.com") {
		t.Errorf("body %s", body)
	}
	if code, _ := fetch(ctx, "http://"+podAddress(ctx, t, "default", "app=easegress-ingress", "8080")+"/", "other.example.com"); code != 404 {
		t.Errorf("another host: %d", code)
	}
}
