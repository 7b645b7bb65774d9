package pods_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/pods"
)

const objects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {first: one, second: two}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
stringData: {password: "pass word"}
---
`

func TestEnvironment(t *testing.T) {
	ctx := shared.Need(t)
	shared.Runner.SetImage("shell", pods.Image{Env: []string{"FROM_IT=1", "OVER=image"}})
	pod, out := run(ctx, t, objects+`
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: x}, annotations: {note: a note}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: shell
    command: [/bin/sh, -c, 'echo "args $0 $1"; env | sort | grep ^T_; echo "image $FROM_IT $OVER"; echo "host $(hostname) $HOSTNAME"; pwd']
    args: ["$(T_A)", "$$(T_A)"]
    workingDir: /usr
    resources: {limits: {cpu: 250m, memory: 64Mi}}
    envFrom:
    - {configMapRef: {name: settings}, prefix: T_S_}
    - {secretRef: {name: none, optional: true}}
    env:
    - {name: T_A, value: a}
    - {name: T_B, value: "$(T_A)$(T_S_first)$(T_LATER)"}
    - {name: T_LATER, value: x}
    - {name: OVER, value: pod}
    - {name: T_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: T_LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: T_NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['note']"}}}
    - {name: T_NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: T_ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
    - {name: T_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: T_HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    - {name: T_KEY, valueFrom: {configMapKeyRef: {name: settings, key: second}}}
    - {name: T_NO_KEY, valueFrom: {configMapKeyRef: {name: settings, key: none, optional: true}}}
    - {name: T_SECRET, valueFrom: {secretKeyRef: {name: secret, key: password}}}
    - {name: T_CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: T_MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
`)
	want := strings.Join([]string{
		"args a $(T_A)", "T_A=a", "T_ACCOUNT=default", "T_B=aone$(T_LATER)", "T_CPU=1", "T_HOST=" + cluster.NodeAddress, "T_IP=" + pod.Status.PodIP,
		"T_KEY=two", "T_LABEL=x", "T_LATER=x", "T_MEMORY=64", "T_NAME=one", "T_NODE=node", "T_NOTE=a note", "T_SECRET=pass word",
		"T_S_first=one", "T_S_second=two", "image 1 pod", "host one one", "/usr", "",
	}, "\n")
	if diff := cmp.Diff(want, out); diff != "" {
		t.Error(diff)
	}
}

const mounted = objects + `
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: before}}
spec:
  volumes:
  - {name: whole, configMap: {name: settings}}
  - {name: items, configMap: {name: settings, items: [{key: first, path: deep/er/file, mode: 0600}]}}
  - {name: secret, secret: {secretName: secret, defaultMode: 0400}}
  - {name: empty, emptyDir: {}}
  - name: mixed
    projected:
      sources:
      - {configMap: {name: settings, items: [{key: second, path: second}]}}
      - {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
      - {serviceAccountToken: {path: token, audience: someone, expirationSeconds: 600}}
  containers:
  - name: main
    image: shell
    command: [/bin/sh, -c, 'echo hello > /shared/greeting; trap "exit 0" TERM; sleep 1000 & wait']
    volumeMounts:
    - {name: whole, mountPath: /opt/whole}
    - {name: whole, mountPath: /opt/eg/one.yaml, subPath: first}
    - {name: items, mountPath: /var/run/items}
    - {name: secret, mountPath: /etc/secret}
    - {name: empty, mountPath: /shared}
    - {name: empty, mountPath: /sub, subPathExpr: "dir-$(HOSTNAME)"}
    - {name: mixed, mountPath: /mixed}
  - name: other
    image: shell
    command: [/bin/sh, -c, 'trap "exit 0" TERM; sleep 1000 & wait']
    volumeMounts: [{name: empty, mountPath: /elsewhere}]
`

func TestVolumes(t *testing.T) {
	ctx := shared.Need(t)
	shared.Runner.SetImage("shell", pods.Image{})
	ns := namespace(ctx, t)
	apply(ctx, t, ns, mounted)
	waitPod(ctx, t, ns, "one", "ready", ready)
	in := func(container, script string) string {
		out, err := shared.Runner.Exec(ctx, ns, "one", container, "/bin/sh", "-c", script)
		if err != nil {
			return string(out) + err.Error()
		}
		return strings.TrimSpace(string(out))
	}
	for _, check := range []struct{ container, script, want string }{
		{"main", "cat /opt/whole/first /opt/whole/second; ls /opt/whole", "onetwofirst\nsecond"},
		{"main", "cat /opt/eg/one.yaml", "one"},
		{"main", "cat /run/items/deep/er/file; stat -L -c %a /run/items/deep/er/file; ls /run/items", "one600\ndeep"},
		{"main", "cat /etc/secret/password; stat -L -c %a /etc/secret/password", "pass word400"},
		{"other", "cat /elsewhere/greeting; ls /elsewhere", "hello\ndir-one\ngreeting"},
		{"main", "cat /mixed/labels /mixed/second; test -s /mixed/token && echo token", "app=\"before\"twotoken"},
		{"main", "cd /var/run/secrets/kubernetes.io/serviceaccount; cat namespace; ls", ns + "ca.crt\nnamespace\ntoken"},
		{"main", "touch /opt/whole/x 2>/dev/null || echo read-only", "read-only"},
		{"main", "touch /etc/written && ls /etc/written", "/etc/written"},
		{"other", "ls /etc/written 2>/dev/null || echo apart", "apart"},
		{"main", "curl -s --cacert /run/secrets/kubernetes.io/serviceaccount/ca.crt -H \"Authorization: Bearer $(cat /run/secrets/kubernetes.io/serviceaccount/token)\" " +
			"https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/x | grep -o 'system:serviceaccount:[a-z:]*'", "system:serviceaccount:" + ns + ":default"},
	} {
		if got := in(check.container, check.script); got != check.want {
			t.Errorf("%s: %s: %q, want %q", check.container, check.script, got, check.want)
		}
	}
	if _, err := os.Stat("/etc/written"); err == nil {
		t.Error("what a container writes is on this machine")
	}
	apply(ctx, t, ns, strings.NewReplacer("first: one, second: two", "second: three", "app: before", "app: after").Replace(mounted))
	err := cluster.Wait(ctx, "the volumes to follow", func(context.Context) (bool, error) {
		return in("main", "cat /opt/whole/second /mixed/second /mixed/labels; ls /opt/whole") == "threethreeapp=\"after\"second", nil
	})
	if err != nil {
		t.Errorf("%v: %s", err, in("main", "cat /opt/whole/second /mixed/second /mixed/labels; ls /opt/whole"))
	}
	if got := in("main", "cat /opt/eg/one.yaml"); got != "one" {
		t.Errorf("a subPath mount followed: %q", got)
	}
}

// TestImageFiles runs a program at the path where a document expects it, as an ordinary user with nothing but its volumes to write to.
func TestImageFiles(t *testing.T) {
	ctx := shared.Need(t)
	if users, err := os.ReadFile("/proc/self/uid_map"); err != nil || len(strings.Fields(string(users))) != 3 || strings.Fields(string(users))[2] == "1" {
		t.Skip("needs root: another user's namespace has no user but one")
	}
	dir := filepath.Join(t.TempDir(), "private")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho \"$0 $(id -u):$(id -g) $(grep -E 'CapBnd|NoNewPrivs' /proc/self/status | tr -d '\\n\\t')\"\n" +
		"for f in /etc/x /opt/x /data/x; do touch $f 2>/dev/null && echo wrote $f; done; true\n"
	if err := os.WriteFile(filepath.Join(dir, "server"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	shared.Runner.SetImage("example.org/server:*", pods.Image{Command: []string{"/opt/server/bin/server"}, Files: map[string]string{"/opt/server/bin": dir}})
	shared.Runner.SetImage("example.org/direct", pods.Image{Command: []string{filepath.Join(dir, "server")}})
	_, out := run(ctx, t, `
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  restartPolicy: Never
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 2000, seccompProfile: {type: RuntimeDefault}}
  volumes: [{name: data, emptyDir: {}}]
  initContainers:
  - name: direct
    image: example.org/direct
  containers:
  - name: main
    image: example.org/server:v1
    volumeMounts: [{name: data, mountPath: /data}]
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}
`)
	if want := "/opt/server/bin/server 65532:65532 CapBnd:0000000000000400NoNewPrivs:1\nwrote /data/x\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}

// TestMissing keeps a Pod waiting until what it refers to is there.
func TestMissing(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	apply(ctx, t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  volumes: [{name: whole, configMap: {name: settings}}]
  restartPolicy: Never
  containers:
  - name: main
    image: comes-later
    env: [{name: A, valueFrom: {secretKeyRef: {name: secret, key: password}}}]
    command: [/bin/sh, -c, 'echo "$A"']
`)
	waits := func(text string) {
		waitPod(ctx, t, ns, "one", "waiting for "+text, waitsFor(text))
	}
	waits("settings")
	apply(ctx, t, ns, strings.Split(objects, "---")[0])
	waits("comes-later")
	shared.Runner.SetImage("comes-later", pods.Image{})
	waits("secret")
	apply(ctx, t, ns, strings.Split(objects, "---")[1])
	waitPod(ctx, t, ns, "one", "over", ended)
	if out := shared.Log(ns, "one", "main"); out != "pass word\n" {
		t.Errorf("it wrote %q", out)
	}
	apply(ctx, t, ns, "apiVersion: v1\nkind: Pod\nmetadata: {name: two}\nspec: {containers: [{name: main, image: never-comes}]}")
	waitPod(ctx, t, ns, "two", "waiting", waitsFor("never-comes"))
	remove(ctx, t, ns, "two", metav1.DeleteOptions{})
}
