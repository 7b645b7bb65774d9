package pods

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/ptr"
)

// pod is one Pod from when it is bound until it is out of the API.
type pod struct {
	runner          *Runner
	namespace, name string
	sandbox         *sandbox
	inits, mains    []*container

	wanted context.Context // until it has to end
	end    context.CancelFunc
	alive  context.Context // until its time is up
	kill   context.CancelFunc
	dirty  chan struct{} // the status is to be written
	stale  chan struct{} // the volumes are to be brought up to date

	mu          sync.Mutex
	object      *corev1.Pod // as last seen
	forgotten   bool        // it is out of the API
	limit       *time.Timer // ends its time
	until       time.Time
	initialized bool
	phase       corev1.PodPhase
	wasReady    bool                  // as last written
	conditions  []corev1.PodCondition // as last written
	tokens      map[string]token
	startTime   time.Time
}

func (r *Runner) newPod(object *corev1.Pod) *pod {
	p := &pod{
		runner: r, namespace: object.Namespace, name: object.Name, object: object, phase: corev1.PodPending, startTime: time.Now(),
		dirty: make(chan struct{}, 1), stale: make(chan struct{}, 1), tokens: map[string]token{}, conditions: object.Status.Conditions,
	}
	p.alive, p.kill = context.WithCancel(context.Background())
	p.wanted, p.end = context.WithCancel(p.alive)
	for i := range object.Spec.InitContainers {
		p.inits = append(p.inits, p.newContainer(&object.Spec.InitContainers[i]))
	}
	for i := range object.Spec.Containers {
		p.mains = append(p.mains, p.newContainer(&object.Spec.Containers[i]))
	}
	return p
}

func (p *pod) newContainer(spec *corev1.Container) *container {
	c := &container{pod: p, spec: spec, stop: p.wanted}
	c.state.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	return c
}

// run takes the Pod through its life.
func (p *pod) run(ctx context.Context) {
	over := make(chan struct{})
	known := make(chan bool)
	go func() { known <- p.report(ctx, over) }()
	p.live()
	p.kill()
	if p.sandbox != nil {
		p.runner.network.drop(p.sandbox)
	}
	if err := os.RemoveAll(p.dir()); err != nil {
		p.say("its files cannot be removed: %v", err)
	}
	close(over)
	if <-known && p.deleted() {
		p.runner.remove(ctx, p.current())
	}
	p.say("ended, %s", p.current().Status.Phase)
}

// live returns when the Pod has ended and has to be no more.
func (p *pod) live() {
	if !p.retry("ContainerCreating", p.makeSandbox) || !p.retry("ContainerCreating", func() error { return p.makeVolumes(p.wanted) }) {
		return
	}
	var background sync.WaitGroup
	defer background.Wait()
	background.Go(p.refresh)
	defer p.end()
	sidecars, stopSidecars := context.WithCancel(p.alive)
	defer stopSidecars()
	if p.runInits(sidecars, &background) {
		p.runMains()
	} else if p.wanted.Err() == nil {
		p.setPhase(corev1.PodFailed)
	}
	stopSidecars() // they end after the others
	if p.wanted.Err() == nil {
		<-p.wanted.Done() // it rests until it is deleted
	}
}

// runInits runs the init containers one after another, and starts sidecars among them. It returns false when the Pod must not go on.
func (p *pod) runInits(sidecars context.Context, background *sync.WaitGroup) bool {
	policy := corev1.RestartPolicyOnFailure
	if p.current().Spec.RestartPolicy == corev1.RestartPolicyNever {
		policy = corev1.RestartPolicyNever
	}
	for _, c := range p.inits {
		if ptr.Deref(c.spec.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			c.stop = sidecars
			background.Go(func() { c.loop(corev1.RestartPolicyAlways) })
			if !p.waitStarted(c) {
				return false
			}
			continue
		}
		if code := c.loop(policy); code != 0 || p.wanted.Err() != nil {
			return false
		}
	}
	p.mu.Lock()
	p.initialized = true
	p.mu.Unlock()
	return true
}

// waitStarted waits until a sidecar has started.
func (p *pod) waitStarted(c *container) bool {
	for {
		p.mu.Lock()
		started := c.started
		p.mu.Unlock()
		if started {
			return true
		}
		if !pause(p.wanted, 20*time.Millisecond) {
			return false
		}
	}
}

// runMains runs the containers and says how the Pod ended.
func (p *pod) runMains() {
	codes := make([]int32, len(p.mains))
	var all sync.WaitGroup
	for i, c := range p.mains {
		all.Go(func() { codes[i] = c.loop(p.current().Spec.RestartPolicy) })
	}
	all.Wait()
	phase := corev1.PodSucceeded
	for _, code := range codes {
		if code != 0 {
			phase = corev1.PodFailed
		}
	}
	p.setPhase(phase)
}

func (p *pod) setPhase(phase corev1.PodPhase) {
	p.mu.Lock()
	p.phase = phase
	p.mu.Unlock()
	p.touch()
}

// retry repeats a step until it succeeds, and shows why it does not. It returns false when the Pod has to end before that.
func (p *pod) retry(reason string, step func() error) bool {
	for {
		err := step()
		if err == nil {
			return true
		}
		if p.wanted.Err() == nil {
			p.say("waits: %v", err)
			for _, c := range append(append([]*container{}, p.inits...), p.mains...) {
				c.wait(reason, err.Error())
			}
		}
		if !pause(p.wanted, 500*time.Millisecond) {
			return false
		}
	}
}

func (p *pod) makeSandbox() error {
	if p.current().Spec.HostNetwork {
		p.setSandbox(&sandbox{})
		return nil
	}
	s, err := p.runner.network.newSandbox(hostname(p.current()))
	if err != nil {
		return err
	}
	p.setSandbox(s)
	return nil
}

func (p *pod) setSandbox(s *sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sandbox = s
}

// address is the Pod's; empty before it has one.
func (p *pod) address() string {
	p.mu.Lock()
	s := p.sandbox
	p.mu.Unlock()
	switch {
	case s == nil:
		return ""
	case s.net == nil:
		return p.runner.Node
	}
	return s.address.String()
}

// refresh brings the volumes up to date when what they show has changed, or a token is to be renewed.
func (p *pod) refresh() {
	for {
		select {
		case <-p.wanted.Done():
			return
		case <-p.stale:
		case <-time.After(p.untilRenewal()):
		}
		if err := p.makeVolumes(p.wanted); err != nil && p.wanted.Err() == nil {
			p.say("volumes are not up to date: %v", err)
			time.AfterFunc(time.Second, p.freshen)
		}
	}
}

// freshen has the volumes brought up to date.
func (p *pod) freshen() { signal(p.stale) }

// touch has the status written.
func (p *pod) touch() { signal(p.dirty) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is due already
	}
}

// see takes the Pod as it now is in the API.
func (p *pod) see(object *corev1.Pod) {
	p.mu.Lock()
	before := p.object
	if older(object, before) { // our own status write was answered before the watch told of what was before it
		p.mu.Unlock()
		return
	}
	p.object = object
	p.mu.Unlock()
	if !maps.Equal(object.Labels, before.Labels) || !maps.Equal(object.Annotations, before.Annotations) {
		p.freshen()
	}
	p.touch() // readiness gates may have changed
	if object.DeletionTimestamp != nil {
		p.endWithin(time.Duration(ptr.Deref(object.DeletionGracePeriodSeconds, 0)) * time.Second)
	}
}

func older(a, b *corev1.Pod) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order < 0
}

// endWithin begins the end. Later calls can only shorten the time.
func (p *pod) endWithin(grace time.Duration) {
	p.mu.Lock()
	until := time.Now().Add(grace)
	switch {
	case p.limit == nil:
		p.until, p.limit = until, time.AfterFunc(grace, p.kill)
	case until.Before(p.until):
		p.until = until
		p.limit.Reset(grace)
	}
	p.mu.Unlock()
	p.end()
}

// forget ends a Pod that is out of the API already.
func (p *pod) forget() {
	p.mu.Lock()
	p.forgotten = true
	p.mu.Unlock()
	p.kill()
}

func (p *pod) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forgotten
}

func (p *pod) deleted() bool { return p.current().DeletionTimestamp != nil && !p.gone() }

// current is the Pod as last seen in the API.
func (p *pod) current() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.object
}

func (p *pod) dir() string {
	return filepath.Join(p.runner.scratch, string(p.current().UID))
}

func (p *pod) say(format string, args ...any) {
	fmt.Fprintf(p.runner.Log, "pod %s/%s "+format+"\n", append([]any{p.namespace, p.name}, args...)...)
}

func hostname(o *corev1.Pod) string {
	name := o.Name
	if o.Spec.Hostname != "" {
		name = o.Spec.Hostname
	}
	return name[:min(len(name), 63)]
}
