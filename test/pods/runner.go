package pods

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// NodeName is the one node that Pods run on.
const NodeName = "node"

// Settings of a Runner.
type Settings struct {
	Client  kubernetes.Interface // without a rate limit
	Images  Images
	Network netip.Prefix  // addresses of Pods; the first is the bridge's
	Node    string        // the node's address, which Pods of the host's network have too
	Server  string        // the API server's URL as Pods reach it
	Dir     string        // logs
	Log     io.Writer     // one line for each Pod that becomes ready, cannot go on, or ends; safe for concurrent use
	BackOff time.Duration // before the second restart of a container, doubled each time; 0: 10 s, as a kubelet's
}

// Runner runs every Pod of the cluster.
type Runner struct {
	Settings
	network *network
	scratch string // in memory: volumes and what containers write
	machine *machine

	mu      sync.Mutex
	pods    map[types.UID]*pod
	binding map[types.UID]bool
	all     sync.WaitGroup
}

// New makes the node and the bridge. It needs the namespaces that cluster.Enter makes.
func New(ctx context.Context, s Settings) (*Runner, error) {
	r := &Runner{Settings: s, pods: map[types.UID]*pod{}, binding: map[types.UID]bool{}, scratch: filepath.Join(s.Dir, "scratch")}
	if r.Images == nil {
		r.Images = Images{}
	}
	if r.BackOff == 0 {
		r.BackOff = 10 * time.Second
	}
	if err := os.MkdirAll(r.scratch, 0o755); err != nil {
		return nil, err
	}
	err := unix.Mount("tmpfs", r.scratch, "tmpfs", 0, "mode=755")
	if err != nil {
		return nil, fmt.Errorf("mount memory at %s: %w", r.scratch, err)
	}
	if r.machine, err = newMachine(r.scratch, "/run", "/var/run"); err != nil {
		return nil, err
	}
	if r.network, err = newNetwork(s.Network); err != nil {
		return nil, err
	}
	return r, r.makeNode(ctx)
}

func (r *Runner) makeNode(ctx context.Context) error {
	nodes := r.Client.CoreV1().Nodes()
	node, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName, Labels: map[string]string{
		"kubernetes.io/hostname": NodeName, "kubernetes.io/os": "linux",
	}}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create the node: %w", err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: r.Node}}
	if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("report the node ready: %w", err)
	}
	return nil
}

// Run follows the Pods until the context ends, then kills what is left.
func (r *Runner) Run(ctx context.Context) {
	var watches sync.WaitGroup
	for _, f := range []*follower{
		{resource: "pods", kind: &corev1.Pod{}, changed: func(o metav1.Object) { r.see(ctx, o.(*corev1.Pod)) }, gone: func(o metav1.Object) { r.forget(o.GetUID()) }},
		{resource: "configmaps", kind: &corev1.ConfigMap{}, changed: func(o metav1.Object) { r.freshen("ConfigMap", o) }},
		{resource: "secrets", kind: &corev1.Secret{}, changed: func(o metav1.Object) { r.freshen("Secret", o) }},
	} {
		watches.Go(func() { f.run(ctx, r.Client.CoreV1().RESTClient()) })
	}
	watches.Wait()
	r.mu.Lock()
	for _, p := range r.pods {
		p.kill()
	}
	r.mu.Unlock()
	r.all.Wait()
	_ = unix.Unmount(r.scratch, unix.MNT_DETACH) // it goes with the namespace at the latest
}

// see acts on a Pod as it now is: binds and starts a new one, ends one that is being deleted.
func (r *Runner) see(ctx context.Context, object *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[object.UID]
	switch {
	case p != nil:
		p.see(object)
	case object.Spec.NodeName == "":
		if object.DeletionTimestamp == nil && len(object.Spec.SchedulingGates) == 0 && !r.binding[object.UID] {
			r.binding[object.UID] = true
			r.all.Go(func() { r.bind(ctx, object) })
		}
	case object.Spec.NodeName != NodeName:
	case object.DeletionTimestamp != nil:
		r.all.Go(func() { r.remove(ctx, object) })
	case object.Status.Phase == corev1.PodPending:
		p = r.newPod(object)
		r.pods[object.UID] = p
		r.all.Go(func() {
			p.run(ctx)
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.pods, object.UID)
		})
	}
}

// forget ends what a Pod that is out of the API left behind.
func (r *Runner) forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.binding, uid)
	if p := r.pods[uid]; p != nil {
		p.forget()
	}
}

// freshen brings the volumes up to date that show an object.
func (r *Runner) freshen(kind string, o metav1.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		if p.namespace == o.GetNamespace() && uses(p.current(), kind, o.GetName()) {
			p.freshen()
		}
	}
}

func (r *Runner) bind(ctx context.Context, object *corev1.Pod) {
	err := r.Client.CoreV1().Pods(object.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: object.Name, Namespace: object.Namespace, UID: object.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: NodeName},
	}, metav1.CreateOptions{})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || ctx.Err() != nil {
		return
	}
	r.say(object, "cannot be bound: %v", err)
	if pause(ctx, time.Second) {
		r.bind(ctx, object)
	}
}

// remove takes a Pod that has ended out of the API, as a kubelet does.
func (r *Runner) remove(ctx context.Context, object *corev1.Pod) {
	now := int64(0)
	for {
		err := r.Client.CoreV1().Pods(object.Namespace).Delete(ctx, object.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &object.UID},
		})
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || ctx.Err() != nil {
			return
		}
		r.say(object, "cannot be removed: %v", err)
		if !pause(ctx, time.Second) {
			return
		}
	}
}

func (r *Runner) say(object *corev1.Pod, format string, args ...any) {
	fmt.Fprintf(r.Log, "pod %s/%s "+format+"\n", append([]any{object.Namespace, object.Name}, args...)...)
}

// SetImage says what an image stands for from the next start of a container on.
func (r *Runner) SetImage(name string, image Image) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Images[name] = image
}

func (r *Runner) image(ref string) (Image, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Images.find(ref)
}

// backOff is how long a container waits after so many failures.
func (r *Runner) backOff(failures int) time.Duration {
	pause := r.BackOff
	for range failures - 1 {
		pause = min(2*pause, longestBackOff)
	}
	return pause
}

// Exec runs a command in a container and returns its output; the error is an *exec.ExitError when the command failed.
func (r *Runner) Exec(ctx context.Context, namespace, pod, container string, argv ...string) ([]byte, error) {
	r.mu.Lock()
	var run *process
	for _, p := range r.pods {
		if p.namespace == namespace && p.name == pod {
			run = p.running(container)
		}
	}
	r.mu.Unlock()
	if run == nil {
		return nil, fmt.Errorf("container %s of pod %s/%s does not run", container, namespace, pod)
	}
	return run.exec(ctx, argv)
}

func (p *pod) running(name string) *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range append(append([]*container{}, p.inits...), p.mains...) {
		if c.spec.Name == name {
			return c.run
		}
	}
	return nil
}

// LogFile is where the output of a container goes.
func (r *Runner) LogFile(namespace, pod, container string) string {
	return filepath.Join(r.Dir, "logs", namespace, pod, container+".log")
}

func (r *Runner) openLog(object *corev1.Pod, container string) (*os.File, error) {
	path := r.LogFile(object.Namespace, object.Name, container)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}
