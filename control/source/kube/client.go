package kube

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	protobuf  = "application/vnd.kubernetes.protobuf"
	writeRate = 200 // requests a second that write
)

// resource is one of the API's, with the types that it is decoded to.
type resource struct {
	version schema.GroupVersion
	name    string // plural, as in URLs
	one     func() runtime.Object
	list    func() runtime.Object
}

func ingresses() *resource {
	return &resource{netv1.SchemeGroupVersion, "ingresses", func() runtime.Object { return new(netv1.Ingress) }, func() runtime.Object { return new(netv1.IngressList) }}
}

func ingressClasses() *resource {
	return &resource{netv1.SchemeGroupVersion, "ingressclasses", func() runtime.Object { return new(netv1.IngressClass) }, func() runtime.Object { return new(netv1.IngressClassList) }}
}

func services() *resource {
	return &resource{corev1.SchemeGroupVersion, "services", func() runtime.Object { return new(corev1.Service) }, func() runtime.Object { return new(corev1.ServiceList) }}
}

func endpointSlices() *resource {
	return &resource{discoveryv1.SchemeGroupVersion, "endpointslices", func() runtime.Object { return new(discoveryv1.EndpointSlice) }, func() runtime.Object { return new(discoveryv1.EndpointSliceList) }}
}

func secrets() *resource {
	return &resource{corev1.SchemeGroupVersion, "secrets", func() runtime.Object { return new(corev1.Secret) }, func() runtime.Object { return new(corev1.SecretList) }}
}

func leases() *resource {
	return &resource{coordinationv1.SchemeGroupVersion, "leases", func() runtime.Object { return new(coordinationv1.Lease) }, nil}
}

func events() *resource {
	return &resource{eventsv1.SchemeGroupVersion, "events", func() runtime.Object { return new(eventsv1.Event) }, nil}
}

// client talks to one API server in the few groups that are used. Its methods may be called from any goroutine.
type client struct {
	groups map[schema.GroupVersion]*rest.RESTClient
	params runtime.ParameterCodec
}

// newClient makes a client for config; limiter, if not nil, is asked before each request.
func newClient(config *rest.Config, limiter flowcontrol.RateLimiter) (*client, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.RateLimiter = -1, limiter
	config.WarningHandlerWithContext, config.WarningHandler = rest.NoWarnings{}, nil
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf+",application/json"
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare connections to the API server: %w", err)
	}
	c := &client{groups: map[schema.GroupVersion]*rest.RESTClient{}, params: runtime.NewParameterCodec(scheme)}
	for _, r := range []*resource{ingresses(), services(), endpointSlices(), leases(), events()} {
		group := rest.CopyConfig(config)
		group.GroupVersion, group.APIPath = &r.version, "/apis"
		if r.version.Group == "" {
			group.APIPath = "/api"
		}
		if c.groups[r.version], err = rest.RESTClientForConfigAndClient(group, transport); err != nil {
			return nil, fmt.Errorf("prepare connections to the API server: %w", err)
		}
	}
	return c, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{netv1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme, coordinationv1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register API types: %w", err)
		}
	}
	return scheme, nil
}

func (c *client) list(ctx context.Context, r *resource, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	into := r.list()
	err := c.groups[r.version].Get().NamespaceIfScoped(namespace, namespace != "").Resource(r.name).
		VersionedParams(&options, c.params).Timeout(time.Minute).MaxRetries(0).Do(ctx).Into(into)
	return into, err
}

func (c *client) watch(ctx context.Context, r *resource, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	var limit time.Duration
	if options.TimeoutSeconds != nil {
		limit = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	return c.groups[r.version].Get().NamespaceIfScoped(namespace, namespace != "").Resource(r.name).
		VersionedParams(&options, c.params).Timeout(limit).MaxRetries(0).Watch(ctx)
}

func (c *client) get(ctx context.Context, r *resource, namespace, name string) (runtime.Object, error) {
	into := r.one()
	err := c.groups[r.version].Get().Namespace(namespace).Resource(r.name).Name(name).Do(ctx).Into(into)
	return into, err
}

func (c *client) create(ctx context.Context, r *resource, namespace string, o runtime.Object) (runtime.Object, error) {
	into := r.one()
	err := c.groups[r.version].Post().Namespace(namespace).Resource(r.name).Body(o).Do(ctx).Into(into)
	return into, err
}

func (c *client) update(ctx context.Context, r *resource, namespace, name string, o runtime.Object) (runtime.Object, error) {
	into := r.one()
	err := c.groups[r.version].Put().Namespace(namespace).Resource(r.name).Name(name).Body(o).Do(ctx).Into(into)
	return into, err
}

// patch sends a merge patch (RFC 7386) in the name of a field manager.
func (c *client) patch(ctx context.Context, r *resource, p patch) (runtime.Object, error) {
	into := r.one()
	request := c.groups[r.version].Patch(types.MergePatchType).Namespace(p.namespace).Resource(r.name).Name(p.name).
		VersionedParams(&metav1.PatchOptions{FieldManager: p.manager}, c.params).Body(p.body)
	if p.part != "" {
		request = request.SubResource(p.part)
	}
	err := request.Do(ctx).Into(into)
	return into, err
}

// patch is a change of an object.
type patch struct {
	namespace, name string
	part            string // subresource
	manager         string
	body            []byte
}
