package pods

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// follower watches one kind of object in all namespaces; it is the store of its reflector and keeps no more than who is there.
type follower struct {
	resource string
	kind     runtime.Object
	changed  func(metav1.Object)
	gone     func(metav1.Object) // may be nil

	mu    sync.Mutex
	known map[types.UID]metav1.Object // only where gone is given
}

// run watches until the context ends. It is back within a second when the API server is.
func (f *follower) run(ctx context.Context, client rest.Interface) {
	f.known = map[types.UID]metav1.Object{}
	watch := cache.NewListWatchFromClient(client, f.resource, metav1.NamespaceAll, fields.Everything())
	cache.NewReflectorWithOptions(watch, f.kind, f, cache.ReflectorOptions{
		Name: f.resource, Backoff: &wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Cap: time.Second, Steps: 10, Jitter: 0.2},
	}).RunWithContext(ctx)
}

// Add takes a new object.
func (f *follower) Add(o any) error { return f.Update(o) }

// Update takes an object that has changed.
func (f *follower) Update(o any) error {
	object := o.(metav1.Object) // the reflector passes on objects of our kind alone
	f.keep(object)
	f.changed(object)
	return nil
}

// Delete takes an object that is gone.
func (f *follower) Delete(o any) error {
	object := o.(metav1.Object)
	f.mu.Lock()
	delete(f.known, object.GetUID())
	f.mu.Unlock()
	if f.gone != nil {
		f.gone(object)
	}
	return nil
}

// Replace takes all objects there are.
func (f *follower) Replace(objects []any, _ string) error {
	f.mu.Lock()
	before := f.known
	f.known = map[types.UID]metav1.Object{}
	f.mu.Unlock()
	for _, o := range objects {
		delete(before, o.(metav1.Object).GetUID())
		if err := f.Update(o); err != nil {
			return err
		}
	}
	for _, o := range before {
		f.gone(o)
	}
	return nil
}

// Resync does nothing: no object changes by itself.
func (f *follower) Resync() error { return nil }

func (f *follower) keep(o metav1.Object) {
	if f.gone == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[o.GetUID()] = o
}
