package pods

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// report writes the status whenever it is due, for the last time when the Pod is over. It returns whether the API knows that.
func (p *pod) report(ctx context.Context, over <-chan struct{}) bool {
	for {
		select {
		case <-over:
			return p.writeStatus(ctx)
		case <-p.dirty:
			p.writeStatus(ctx)
		}
	}
}

// writeStatus writes the status if it differs from the API's, and tries until it succeeds. It returns false when the Pod is out of
// the API or the context ended.
func (p *pod) writeStatus(ctx context.Context) bool {
	for wait := 50 * time.Millisecond; !p.gone(); wait = min(2*wait, time.Second) {
		status, object := p.status()
		if same(status, &object.Status) {
			return true
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": object.UID}, "status": status})
		if err != nil {
			p.say("status: %v", err)
			return false
		}
		fresh, err := p.runner.Client.CoreV1().Pods(p.namespace).Patch(ctx, p.name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
		switch {
		case err == nil:
			p.wrote(fresh)
			return true
		case apierrors.IsNotFound(err), apierrors.IsConflict(err): // another Pod has its name
			return false
		case ctx.Err() == nil:
			p.say("status cannot be written: %v", err)
		}
		if !pause(ctx, wait) {
			return false
		}
	}
	return false
}

// wrote keeps what the API has now.
func (p *pod) wrote(fresh *corev1.Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	became := ready(fresh) && !p.wasReady
	p.wasReady = ready(fresh)
	p.conditions = fresh.Status.Conditions
	if !older(fresh, p.object) {
		p.object = fresh
	}
	if became {
		fmt.Fprintf(p.runner.Log, "pod %s/%s is ready at %s after %s\n", p.namespace, p.name, fresh.Status.PodIP, time.Since(p.startTime).Round(time.Millisecond))
	}
}

func ready(o *corev1.Pod) bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// same compares what the runner writes.
func same(ours, theirs *corev1.PodStatus) bool {
	for _, c := range ours.Conditions {
		if !slices.ContainsFunc(theirs.Conditions, func(o corev1.PodCondition) bool {
			return o.Type == c.Type && o.Status == c.Status && o.Reason == c.Reason && o.Message == c.Message
		}) {
			return false
		}
	}
	return ours.Phase == theirs.Phase && ours.PodIP == theirs.PodIP &&
		equality.Semantic.DeepEqual(rounded(ours.ContainerStatuses), rounded(theirs.ContainerStatuses)) &&
		equality.Semantic.DeepEqual(rounded(ours.InitContainerStatuses), rounded(theirs.InitContainerStatuses))
}

// rounded leaves out what the API rounds.
func rounded(in []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, len(in))
	for i := range in {
		in[i].DeepCopyInto(&out[i])
		for _, s := range []*corev1.ContainerState{&out[i].State, &out[i].LastTerminationState} {
			if s.Running != nil {
				s.Running.StartedAt = metav1.Time{}
			}
			if s.Terminated != nil {
				s.Terminated.StartedAt, s.Terminated.FinishedAt = metav1.Time{}, metav1.Time{}
			}
		}
	}
	return out
}

// status is how the Pod is, and the object that this was seen with.
func (p *pod) status() (*corev1.PodStatus, *corev1.Pod) {
	address := p.address()
	p.mu.Lock()
	defer p.mu.Unlock()
	start := metav1.NewTime(p.startTime)
	s := &corev1.PodStatus{
		Phase: p.phase, StartTime: &start, HostIP: p.runner.Node, HostIPs: []corev1.HostIP{{IP: p.runner.Node}}, PodIP: address,
		QOSClass: p.object.Status.QOSClass,
	}
	if address != "" {
		s.PodIPs = []corev1.PodIP{{IP: address}}
	}
	if s.Phase == corev1.PodPending && slices.ContainsFunc(p.mains, func(c *container) bool { return c.run != nil || c.last.Terminated != nil }) {
		s.Phase = corev1.PodRunning
	}
	allReady := s.Phase == corev1.PodRunning
	for _, c := range p.inits {
		status := c.status()
		status.Ready = status.Ready || c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
		s.InitContainerStatuses = append(s.InitContainerStatuses, status)
	}
	for _, c := range p.mains {
		status := c.status()
		if !p.initialized && c.state.Waiting != nil && len(p.inits) > 0 {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
		}
		allReady = allReady && c.ready
		s.ContainerStatuses = append(s.ContainerStatuses, status)
	}
	p.addCondition(s, corev1.PodReadyToStartContainers, address != "", "")
	p.addCondition(s, corev1.PodInitialized, p.initialized, "ContainersNotInitialized")
	p.addCondition(s, corev1.ContainersReady, allReady, "ContainersNotReady")
	gates := p.gatesOpen()
	reason := "ContainersNotReady"
	if allReady {
		reason = "ReadinessGatesNotReady"
	}
	p.addCondition(s, corev1.PodReady, allReady && gates, reason)
	return s, p.object
}

// gatesOpen says whether the conditions that readinessGates name are true.
func (p *pod) gatesOpen() bool {
	for _, gate := range p.object.Spec.ReadinessGates {
		if !slices.ContainsFunc(p.object.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		}) {
			return false
		}
	}
	return true
}

// addCondition keeps the time of a condition that does not change.
func (p *pod) addCondition(s *corev1.PodStatus, kind corev1.PodConditionType, ok bool, reason string) {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
	if !ok {
		c.Status, c.Reason = corev1.ConditionFalse, reason
	}
	if !ok && s.Phase == corev1.PodSucceeded {
		c.Reason = "PodCompleted"
	}
	for _, old := range p.conditions {
		if old.Type == kind && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	s.Conditions = append(s.Conditions, c)
}

func (c *container) status() corev1.ContainerStatus {
	started := c.started
	s := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: c.spec.Image, RestartCount: c.restarts, Ready: c.ready, Started: &started,
		State: *c.state.DeepCopy(),
	}
	if c.state.Terminated == nil {
		s.LastTerminationState = *c.last.DeepCopy()
	}
	if c.run != nil {
		s.ContainerID = c.id(c.run)
	} else if c.last.Terminated != nil {
		s.ContainerID = c.last.Terminated.ContainerID
	}
	return s
}
