package pods_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/pods"
)

func waitsFor(text string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Waiting != nil && strings.Contains(s.State.Waiting.Reason+" "+s.State.Waiting.Message, text) {
				return true
			}
		}
		return false
	}
}

// remove deletes a Pod and returns how long it was there.
func remove(ctx context.Context, t *testing.T, ns, name string, options metav1.DeleteOptions) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := shared.Client().CoreV1().Pods(ns).Delete(ctx, name, options); err != nil {
		t.Fatal(err)
	}
	err := cluster.Wait(ctx, "the Pod to be gone", func(ctx context.Context) (bool, error) {
		_, err := shared.Client().CoreV1().Pods(ns).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(begin)
}

func TestTermination(t *testing.T) {
	ctx := shared.Need(t)
	shared.Runner.SetImage("shell", pods.Image{})
	for _, test := range []struct {
		name, spec string
		seconds    [2]float64 // at least, at most: generous, the machine may be busy
		log        string
	}{
		{"Graceful", `
  terminationGracePeriodSeconds: 30
  containers:
  - {name: main, image: shell, command: [/bin/sh, -c, 'trap "echo term; sleep 1; echo bye; exit 0" TERM; echo up; sleep 1000 & wait']}`, [2]float64{1, 15}, "up\nterm\nbye\n"},
		{"Stubborn", `
  terminationGracePeriodSeconds: 2
  containers:
  - {name: main, image: shell, command: [/bin/sh, -c, 'trap "echo term" TERM; echo up; while true; do sleep 1000 & wait; done']}`, [2]float64{2, 15}, "up\nterm\n"},
		{"FirstProcessWithoutHandler", `
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: shell, command: [/bin/sh, -c, 'echo up; sleep 1000; echo no']}`, [2]float64{1, 15}, "up\n"},
		{"PreStop", `
  terminationGracePeriodSeconds: 30
  containers:
  - name: main
    image: shell
    command: [/bin/sh, -c, 'trap "cat /tmp/hooks; echo term; exit 0" TERM; echo up; sleep 1000 & wait']
    lifecycle:
      postStart: {exec: {command: [/bin/sh, -c, 'echo started >> /tmp/hooks']}}
      preStop: {exec: {command: [/bin/sh, -c, 'sleep 1; echo hook $(hostname) >> /tmp/hooks']}}`, [2]float64{1, 15}, "up\nstarted\nhook one\nterm\n"},
		{"PreStopSleep", `
  terminationGracePeriodSeconds: 30
  containers:
  - {name: main, image: shell, command: [/bin/sh, -c, 'trap "exit 0" TERM; echo up; sleep 1000 & wait'], lifecycle: {preStop: {sleep: {seconds: 2}}}}`, [2]float64{2, 15}, "up\n"},
		{"PreStopTooLong", `
  terminationGracePeriodSeconds: 1
  containers:
  - {name: main, image: shell, command: [/bin/sh, -c, 'trap "echo term; exit 0" TERM; echo up; sleep 1000 & wait'], lifecycle: {preStop: {exec: {command: [sleep, "100"]}}}}`, [2]float64{1, 15}, "up\nterm\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ns := namespace(ctx, t)
			apply(ctx, t, ns, "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec:"+test.spec)
			waitPod(ctx, t, ns, "one", "ready", ready)
			if err := cluster.Wait(ctx, "its first words", func(context.Context) (bool, error) { return shared.Log(ns, "one", "main") != "", nil }); err != nil {
				t.Fatal(err)
			}
			took := remove(ctx, t, ns, "one", metav1.DeleteOptions{}).Seconds()
			if took < test.seconds[0] || took > test.seconds[1] {
				t.Errorf("it took %.1f s, want %v", took, test.seconds)
			}
			if got := shared.Log(ns, "one", "main"); !strings.HasSuffix(got, test.log) {
				t.Errorf("log %q, want %q", got, test.log)
			}
		})
	}
}

// TestForcedDeletion ends the process although the Pod is out of the API at once.
func TestForcedDeletion(t *testing.T) {
	ctx := shared.Need(t)
	shared.Runner.SetImage("shell", pods.Image{})
	ns := namespace(ctx, t)
	apply(ctx, t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  containers: [{name: main, image: IMAGE, readinessProbe: {tcpSocket: {port: 3000}}}]
`)
	pod := waitPod(ctx, t, ns, "one", "ready", ready)
	now := int64(0)
	remove(ctx, t, ns, "one", metav1.DeleteOptions{GracePeriodSeconds: &now})
	err := cluster.Wait(ctx, "its port to be closed", func(ctx context.Context) (bool, error) {
		limit, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _, err := get(limit, "http://"+pod.Status.PodIP+":3000/")
		return err != nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRestart(t *testing.T) {
	ctx := shared.Need(t)
	shared.Runner.SetImage("shell", pods.Image{})
	start := func(t *testing.T, policy, script string) string {
		ns := namespace(ctx, t)
		apply(ctx, t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  restartPolicy: `+policy+`
  volumes: [{name: state, emptyDir: {}}]
  containers: [{name: main, image: shell, command: [/bin/sh, -c, '`+script+`'], volumeMounts: [{name: state, mountPath: /state}]}]
`)
		return ns
	}
	t.Run("Never", func(t *testing.T) {
		pod := waitPod(ctx, t, start(t, "Never", "exit 3"), "one", "over", ended)
		s := pod.Status.ContainerStatuses[0]
		if pod.Status.Phase != corev1.PodFailed || s.State.Terminated.ExitCode != 3 || s.State.Terminated.Reason != "Error" || s.RestartCount != 0 {
			t.Errorf("%s %+v", pod.Status.Phase, s)
		}
	})
	t.Run("OnFailure", func(t *testing.T) {
		pod := waitPod(ctx, t, start(t, "OnFailure", "test -e /state/x || { touch /state/x; kill -KILL $(sh -c \"echo \\$PPID\"); exit 9; }"), "one", "over", ended)
		if s := pod.Status.ContainerStatuses[0]; pod.Status.Phase != corev1.PodSucceeded || s.RestartCount != 1 || s.State.Terminated.Reason != "Completed" {
			t.Errorf("%s %+v", pod.Status.Phase, s)
		}
	})
	t.Run("AlwaysWithBackOff", func(t *testing.T) {
		pod := waitPod(ctx, t, start(t, "Always", "exit 1"), "one", "waiting", func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount >= 2 && waitsFor("CrashLoopBackOff")(p)
		})
		if s := pod.Status.ContainerStatuses[0]; s.LastTerminationState.Terminated == nil || s.LastTerminationState.Terminated.ExitCode != 1 || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("%s %+v", pod.Status.Phase, s)
		}
	})
	t.Run("NoSuchProgram", func(t *testing.T) {
		ns := namespace(ctx, t)
		apply(ctx, t, ns, "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: {containers: [{name: main, image: shell, command: [no-such-program]}]}")
		waitPod(ctx, t, ns, "one", "waiting", waitsFor("RunContainerError exec: \"no-such-program\""))
	})
}

const order = `
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  restartPolicy: Never
  volumes: [{name: state, emptyDir: {}}]
  initContainers:
  - {name: first, image: shell, command: [/bin/sh, -c, 'echo first >> /state/log'], volumeMounts: [{name: state, mountPath: /state}]}
  - name: sidecar
    image: shell
    restartPolicy: Always
    command: [/bin/sh, -c, 'trap "echo sidecar ends; cat /state/log; exit 0" TERM; echo sidecar >> /state/log; touch /state/up; sleep 1000 & wait']
    startupProbe: {exec: {command: [test, -e, /state/up]}}
    volumeMounts: [{name: state, mountPath: /state}]
  - {name: second, image: shell, command: [/bin/sh, -c, 'echo second >> /state/log'], volumeMounts: [{name: state, mountPath: /state}]}
  containers:
  - {name: main, image: shell, command: [/bin/sh, -c, 'echo main >> /state/log'], volumeMounts: [{name: state, mountPath: /state}]}
  - {name: main2, image: shell, command: [/bin/true]}
`

func TestInitContainers(t *testing.T) {
	ctx := shared.Need(t)
	shared.Runner.SetImage("shell", pods.Image{})
	t.Run("Order", func(t *testing.T) {
		ns := namespace(ctx, t)
		apply(ctx, t, ns, order)
		pod := waitPod(ctx, t, ns, "one", "over", func(p *corev1.Pod) bool {
			return ended(p) && len(p.Status.InitContainerStatuses) == 3 && p.Status.InitContainerStatuses[1].State.Terminated != nil
		})
		if got, want := shared.Log(ns, "one", "sidecar"), "sidecar ends\nfirst\nsidecar\nsecond\nmain\n"; got != want {
			t.Errorf("order %q, want %q", got, want)
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			t.Errorf("phase %s", pod.Status.Phase)
		}
	})
	t.Run("Failing", func(t *testing.T) {
		ns := namespace(ctx, t)
		apply(ctx, t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  restartPolicy: Never
  initContainers: [{name: first, image: shell, command: [/bin/false]}]
  containers: [{name: main, image: shell, command: [/bin/true]}]
`)
		if pod := waitPod(ctx, t, ns, "one", "over", ended); pod.Status.Phase != corev1.PodFailed || !waitsFor("PodInitializing")(pod) {
			t.Errorf("%s %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
	})
}

// TestProbes makes a Pod ready, unready and sick by files that its probes look for.
func TestProbes(t *testing.T) {
	ctx := shared.Need(t)
	shared.Runner.SetImage("shell", pods.Image{})
	ns := namespace(ctx, t)
	apply(ctx, t, ns, `
apiVersion: v1
kind: Pod
metadata: {name: one}
spec:
  readinessGates: [{conditionType: example.org/gate}]
  volumes: [{name: state, emptyDir: {}}]
  containers:
  - name: main
    image: shell
    command: [/bin/sh, -c, 'trap "echo restarted; exit 0" TERM; sleep 1000 & wait']
    startupProbe: {exec: {command: [test, -e, /state/started]}, failureThreshold: 1000, periodSeconds: 1}
    readinessProbe: {exec: {command: [test, -e, /state/ready]}, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {exec: {command: [test, "!", -e, /state/sick]}, periodSeconds: 1, failureThreshold: 2}
    volumeMounts: [{name: state, mountPath: /state}]
  - name: quick
    image: IMAGE
    readinessProbe: {httpGet: {port: web, path: /status/301}}
    ports: [{name: web, containerPort: 3000}]
`)
	touch := func(script string) {
		t.Helper()
		if out, err := shared.Runner.Exec(ctx, ns, "one", "main", "/bin/sh", "-c", script); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	main := func(check func(corev1.ContainerStatus) bool) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			return len(p.Status.ContainerStatuses) == 2 && check(p.Status.ContainerStatuses[0])
		}
	}
	waitPod(ctx, t, ns, "one", "half ready", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 2 && p.Status.ContainerStatuses[1].Ready && !*p.Status.ContainerStatuses[0].Started && !ready(p)
	})
	touch("touch /state/started")
	waitPod(ctx, t, ns, "one", "started", main(func(s corev1.ContainerStatus) bool { return *s.Started && !s.Ready }))
	touch("touch /state/ready")
	waitPod(ctx, t, ns, "one", "waiting at the gate", func(p *corev1.Pod) bool {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.ContainersReady && c.Status == corev1.ConditionTrue {
				return !ready(p)
			}
		}
		return false
	})
	gate := []byte(`{"status":{"conditions":[{"type":"example.org/gate","status":"True"}]}}`)
	if _, err := shared.Client().CoreV1().Pods(ns).Patch(ctx, "one", types.StrategicMergePatchType, gate, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	waitPod(ctx, t, ns, "one", "ready", ready)
	touch("rm /state/ready")
	waitPod(ctx, t, ns, "one", "unready", func(p *corev1.Pod) bool { return !ready(p) })
	touch("touch /state/ready")
	waitPod(ctx, t, ns, "one", "ready again", ready)
	touch("touch /state/sick; rm /state/ready")
	waitPod(ctx, t, ns, "one", "restarted", main(func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 }))
	if out := shared.Log(ns, "one", "main"); !strings.HasPrefix(out, "restarted\n") {
		t.Errorf("log %q", out)
	}
}
