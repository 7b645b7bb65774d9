package pods

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	longestBackOff = 5 * time.Minute
	forgiven       = 10 * time.Minute // a container that ran so long starts again without back-off
	afterHook      = 2 * time.Second  // what a container has at least when its preStop hook took all the time
)

// container is one container of a Pod over all its starts.
type container struct {
	pod  *pod
	spec *corev1.Container
	stop context.Context // done when it has to end

	// Guarded by the Pod's lock.
	state, last    corev1.ContainerState
	restarts       int32
	started, ready bool
	run            *process
}

// loop runs the container, again and again as the policy says, until it has to end. It returns the last exit code.
func (c *container) loop(policy corev1.RestartPolicy) (code int32) {
	for failures := 0; c.stop.Err() == nil; failures++ {
		begin := time.Now()
		var err error
		code, err = c.once()
		if err == nil && (policy == corev1.RestartPolicyNever || policy == corev1.RestartPolicyOnFailure && code == 0) {
			return code
		}
		if c.stop.Err() != nil {
			return code
		}
		if time.Since(begin) > forgiven {
			failures = 0
		}
		if err != nil {
			c.wait(reasonOf(err), err.Error())
			c.pod.say("container %s: %v", c.spec.Name, err)
		}
		if failures == 0 && err == nil {
			continue // the first time at once
		}
		pause := c.pod.runner.backOff(failures)
		if err == nil {
			c.wait("CrashLoopBackOff", fmt.Sprintf("back-off %s restarting failed container", pause))
		}
		select {
		case <-c.stop.Done():
		case <-time.After(pause):
		}
	}
	return code
}

// once starts the container and waits until it has ended. An error means that it did not start.
func (c *container) once() (int32, error) {
	run, err := c.start(c.stop)
	if err != nil {
		return 0, err
	}
	begin := metav1.Now()
	c.update(func() {
		if c.state.Terminated != nil || c.last.Terminated != nil {
			c.restarts++
		}
		c.run, c.state = run, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: begin}}
		c.started = c.spec.StartupProbe == nil
		c.ready = c.started && c.spec.ReadinessProbe == nil
	})
	probing, stop := context.WithCancel(c.pod.alive)
	unhealthy := make(chan string, 1)
	var probes sync.WaitGroup
	c.startProbes(probing, &probes, unhealthy)
	reason := c.await(run, unhealthy)
	stop()
	probes.Wait()
	code := run.exitCode()
	if reason == "" {
		reason = map[bool]string{true: "Completed", false: "Error"}[code == 0]
	}
	c.update(func() {
		c.run, c.started, c.ready = nil, false, false
		c.last = c.state
		c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: reason, StartedAt: begin, FinishedAt: metav1.Now(), ContainerID: c.id(run),
		}}
		c.last = c.state
	})
	return code, nil
}

// await waits for the end, and brings it about when it is time. It returns the reason where it is not the exit code's.
func (c *container) await(run *process, unhealthy chan string) string {
	if hook := c.spec.Lifecycle; hook != nil && hook.PostStart != nil {
		if err := c.hook(c.pod.alive, run, hook.PostStart); err != nil {
			c.pod.say("container %s: postStart hook: %v", c.spec.Name, err)
			run.signal(syscall.SIGKILL)
			<-run.done
			return "PostStartHookError"
		}
	}
	select {
	case <-run.done:
	case <-c.stop.Done():
		c.terminate(c.pod.alive, run)
	case why := <-unhealthy:
		c.pod.say("container %s is restarted: %s", c.spec.Name, why)
		grace := ptr.Deref(c.pod.current().Spec.TerminationGracePeriodSeconds, 30)
		if p := c.spec.LivenessProbe; p != nil {
			grace = ptr.Deref(p.TerminationGracePeriodSeconds, grace)
		}
		limit, cancel := context.WithTimeout(c.pod.alive, time.Duration(grace)*time.Second)
		defer cancel()
		c.terminate(limit, run)
	}
	return ""
}

// terminate ends a container as Kubernetes does: preStop hook, SIGTERM, and SIGKILL when the limit is reached.
func (c *container) terminate(limit context.Context, run *process) {
	if hook := c.spec.Lifecycle; hook != nil && hook.PreStop != nil {
		if err := c.hook(limit, run, hook.PreStop); err != nil {
			c.pod.say("container %s: preStop hook: %v", c.spec.Name, err)
		}
		if limit.Err() != nil && !c.pod.gone() {
			late, cancel := context.WithTimeout(context.Background(), afterHook)
			defer cancel()
			limit = late
		}
	}
	run.signal(syscall.SIGTERM)
	select {
	case <-run.done:
		return
	case <-limit.Done():
	}
	run.signal(syscall.SIGKILL)
	<-run.done
}

// hook runs a life cycle hook to its end, the container's or the limit's.
func (c *container) hook(limit context.Context, run *process, h *corev1.LifecycleHandler) error {
	ctx, cancel := context.WithCancel(limit)
	defer cancel()
	go func() {
		select {
		case <-run.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	switch {
	case h.Exec != nil:
		if out, err := run.exec(ctx, h.Exec.Command); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	case h.HTTPGet != nil:
		return c.httpGet(ctx, h.HTTPGet)
	case h.Sleep != nil:
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
		}
	}
	return nil
}

// start makes the file system and the environment, and starts the program.
func (c *container) start(ctx context.Context) (*process, error) {
	image, known := c.pod.runner.image(c.spec.Image)
	if !known {
		return nil, notStarted{"ErrImagePull", fmt.Errorf("no program stands for the image %s", c.spec.Image)}
	}
	env, err := c.pod.environment(ctx, c.spec, image)
	if err != nil {
		return nil, notStarted{"CreateContainerConfigError", err}
	}
	object := c.pod.current()
	g := program{env: env.list(), path: env.values["PATH"], dir: c.spec.WorkingDir}
	if g.dir == "" {
		g.dir = "/"
	}
	command := c.spec.Command
	if len(command) == 0 {
		command = image.Command
	}
	for _, word := range append(append([]string{}, command...), c.spec.Args...) {
		g.argv = append(g.argv, expand(word, env.values))
	}
	if len(g.argv) == 0 {
		return nil, notStarted{"CreateContainerError", fmt.Errorf("neither the container nor its image names a command")}
	}
	g.restrict(object.Spec.SecurityContext, c.spec.SecurityContext)
	r := &root{dir: c.dir(), machine: c.pod.runner.machine}
	if s := c.spec.SecurityContext; s != nil {
		r.readOnly = ptr.Deref(s.ReadOnlyRootFilesystem, false)
	}
	if r.binds, err = c.binds(object, image, env); err != nil {
		return nil, notStarted{"CreateContainerConfigError", err}
	}
	if err := os.RemoveAll(r.dir); err != nil { // of the start before
		return nil, err
	}
	log, err := c.pod.runner.openLog(object, c.spec.Name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return g.start(c.pod.sandbox, r, log)
}

func (c *container) dir() string { return filepath.Join(c.pod.dir(), "containers", c.spec.Name) }

// binds are the image's files and the container's volumeMounts.
func (c *container) binds(object *corev1.Pod, image Image, env *environment) ([]bind, error) {
	var out []bind
	for _, target := range sorted(image.Files) {
		out = append(out, bind{source: image.Files[target], target: target})
	}
	volumes := map[string]*corev1.Volume{}
	for i := range object.Spec.Volumes {
		volumes[object.Spec.Volumes[i].Name] = &object.Spec.Volumes[i]
	}
	for _, m := range c.spec.VolumeMounts {
		v := volumes[m.Name]
		if v == nil {
			return nil, fmt.Errorf("volumeMount %s: no such volume", m.Name)
		}
		b := bind{source: c.pod.volumeDir(v), target: m.MountPath, readOnly: m.ReadOnly || v.EmptyDir == nil && v.HostPath == nil}
		sub := m.SubPath
		if m.SubPathExpr != "" {
			sub = expand(m.SubPathExpr, env.values)
		}
		if sub != "" {
			path, err := resolve(b.source, sub)
			if err != nil {
				return nil, fmt.Errorf("volumeMount %s: subPath %s: %w", m.Name, sub, err)
			}
			b.source = path
		}
		out = append(out, b)
	}
	return out, nil
}

// resolve follows a subPath to the file as it is now; what is missing becomes a folder.
func resolve(volume, sub string) (string, error) {
	if !filepath.IsLocal(sub) {
		return "", fmt.Errorf("it leads out of the volume")
	}
	path := filepath.Join(volume, sub)
	if _, err := os.Stat(path); os.IsNotExist(err) {
		if err := os.MkdirAll(path, 0o777); err != nil {
			return "", err
		}
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if volume, err = filepath.EvalSymlinks(volume); err == nil && !below(path, volume) {
		err = fmt.Errorf("it leads out of the volume")
	}
	return path, err
}

// notStarted says why a container did not start, in Kubernetes' words.
type notStarted struct {
	reason string
	error
}

func (e notStarted) Unwrap() error { return e.error }

func reasonOf(err error) string {
	if e, known := err.(notStarted); known { //nolint:errorlint // start returns it unwrapped
		return e.reason
	}
	return "RunContainerError"
}

func (c *container) wait(reason, message string) {
	c.update(func() {
		c.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: strings.TrimSpace(message)}}
	})
}

// update changes the container under the Pod's lock and has the status written.
func (c *container) update(change func()) {
	c.pod.mu.Lock()
	change()
	c.pod.mu.Unlock()
	c.pod.touch()
}

func (c *container) id(run *process) string { return fmt.Sprintf("process://%d", run.cmd.Process.Pid) }
