package scale

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// writer writes objects.
type writer struct {
	client  *kubernetes.Clientset
	workers int
}

func (w *writer) create(ctx context.Context, object any) (err error) {
	options := metav1.CreateOptions{}
	switch o := object.(type) {
	case *netv1.Ingress:
		_, err = w.client.NetworkingV1().Ingresses(o.Namespace).Create(ctx, o, options)
	case *netv1.IngressClass:
		_, err = w.client.NetworkingV1().IngressClasses().Create(ctx, o, options)
	case *corev1.Service:
		_, err = w.client.CoreV1().Services(o.Namespace).Create(ctx, o, options)
	case *corev1.Secret:
		_, err = w.client.CoreV1().Secrets(o.Namespace).Create(ctx, o, options)
	case *corev1.Namespace:
		_, err = w.client.CoreV1().Namespaces().Create(ctx, o, options)
	case *discoveryv1.EndpointSlice:
		_, err = w.client.DiscoveryV1().EndpointSlices(o.Namespace).Create(ctx, o, options)
	default:
		return fmt.Errorf("create a %T: unknown", object)
	}
	return err
}

func (w *writer) update(ctx context.Context, object any) (err error) {
	options := metav1.UpdateOptions{}
	switch o := object.(type) {
	case *netv1.Ingress:
		_, err = w.client.NetworkingV1().Ingresses(o.Namespace).Update(ctx, o, options)
	case *corev1.Service:
		_, err = w.client.CoreV1().Services(o.Namespace).Update(ctx, o, options)
	case *corev1.Secret:
		_, err = w.client.CoreV1().Secrets(o.Namespace).Update(ctx, o, options)
	case *discoveryv1.EndpointSlice:
		_, err = w.client.DiscoveryV1().EndpointSlices(o.Namespace).Update(ctx, o, options)
	default:
		return fmt.Errorf("update a %T: unknown", object)
	}
	return err
}

// remove deletes what is there.
func (w *writer) remove(ctx context.Context, object any) (err error) {
	options := metav1.DeleteOptions{}
	switch o := object.(type) {
	case *netv1.Ingress:
		err = w.client.NetworkingV1().Ingresses(o.Namespace).Delete(ctx, o.Name, options)
	case *corev1.Service:
		err = w.client.CoreV1().Services(o.Namespace).Delete(ctx, o.Name, options)
	case *corev1.Secret:
		err = w.client.CoreV1().Secrets(o.Namespace).Delete(ctx, o.Name, options)
	case *discoveryv1.EndpointSlice:
		err = w.client.DiscoveryV1().EndpointSlices(o.Namespace).Delete(ctx, o.Name, options)
	default:
		return fmt.Errorf("delete a %T: unknown", object)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// each calls do for 0 to n-1 with all workers, and returns the first error.
func (w *writer) each(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range w.workers {
		all.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// createAll creates objects, such as made by of, and returns how long it took.
func createAll[T any](ctx context.Context, w *writer, n int, of func(int) T) (time.Duration, error) {
	begin := time.Now()
	err := w.each(ctx, n, func(ctx context.Context, i int) error { return w.create(ctx, of(i)) })
	return time.Since(begin), err
}

// removeAll deletes objects.
func removeAll[T any](ctx context.Context, w *writer, n int, of func(int) T) (time.Duration, error) {
	begin := time.Now()
	err := w.each(ctx, n, func(ctx context.Context, i int) error { return w.remove(ctx, of(i)) })
	return time.Since(begin), err
}
