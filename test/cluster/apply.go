package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/restmapper"
)

// applier finds the resource of any object.
type applier struct {
	dynamic *dynamic.DynamicClient
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// connect makes the clients; it does not need the API server yet.
func (c *Cluster) connect() (err error) {
	if c.client, err = kubernetes.NewForConfig(c.Config()); err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	c.objects = &applier{client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.client.Discovery()))}
	return nil
}

// Apply applies YAML documents as kubectl apply --server-side --force-conflicts does. Objects that name no namespace go to the
// one given.
func (c *Cluster) Apply(ctx context.Context, namespace, documents string) error {
	return c.each(namespace, documents, func(r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		_, err := r.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	})
}

// Delete deletes what YAML documents name, and does not wait; what is not there is no error.
func (c *Cluster) Delete(ctx context.Context, namespace, documents string) error {
	background := metav1.DeletePropagationBackground
	return c.each(namespace, documents, func(r dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		err := r.Delete(ctx, o.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (c *Cluster) each(namespace, documents string, do func(dynamic.ResourceInterface, *unstructured.Unstructured) error) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(documents)), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := decoder.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(o.Object) == 0 {
			continue
		}
		resource, err := c.objects.resource(namespace, o)
		if err == nil {
			err = do(resource, o)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

func (a *applier) resource(namespace string, o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	kind := o.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		a.mapper.Reset() // its definition may be new
		mapping, err = a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return a.dynamic.Resource(mapping.Resource), nil
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(namespace)
	}
	return a.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
}
