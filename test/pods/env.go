package pods

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/url"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// environment of a container, in order; later names win over earlier ones.
type environment struct {
	names  []string
	values map[string]string
}

func (e *environment) set(name, value string) {
	if e.values == nil {
		e.values = map[string]string{}
	}
	if _, known := e.values[name]; !known {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

func (e *environment) list() []string {
	out := make([]string, len(e.names))
	for i, n := range e.names {
		out[i] = n + "=" + e.values[n]
	}
	return out
}

// environment builds the variables of a container: the image's, the cluster's, envFrom, env.
func (p *pod) environment(ctx context.Context, c *corev1.Container, image Image) (*environment, error) {
	object := p.current()
	e := &environment{}
	e.set("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	e.set("HOME", "/root")
	e.set("HOSTNAME", hostname(object))
	for _, pair := range image.Env {
		name, value, _ := strings.Cut(pair, "=")
		e.set(name, value)
	}
	if server, err := url.Parse(p.runner.Server); err == nil && p.runner.Server != "" {
		host, port, _ := net.SplitHostPort(server.Host) // the cluster's URL has both
		e.set("KUBERNETES_SERVICE_HOST", host)
		e.set("KUBERNETES_SERVICE_PORT", port)
		e.set("KUBERNETES_SERVICE_PORT_HTTPS", port)
	}
	for _, from := range c.EnvFrom {
		data, err := p.envFrom(ctx, from)
		if err != nil {
			return nil, err
		}
		for _, k := range sorted(data) {
			e.set(from.Prefix+k, string(data[k]))
		}
	}
	for _, v := range c.Env {
		value, set, err := expand(v.Value, e.values), true, error(nil)
		if v.ValueFrom != nil {
			value, set, err = p.valueFrom(ctx, c, v.ValueFrom)
		}
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", v.Name, err)
		}
		if set {
			e.set(v.Name, value)
		}
	}
	return e, nil
}

func (p *pod) envFrom(ctx context.Context, from corev1.EnvFromSource) (map[string][]byte, error) {
	switch {
	case from.ConfigMapRef != nil:
		return p.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
	case from.SecretRef != nil:
		return p.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
	}
	return nil, nil
}

// valueFrom returns false where an optional source is missing.
func (p *pod) valueFrom(ctx context.Context, c *corev1.Container, from *corev1.EnvVarSource) (string, bool, error) {
	switch {
	case from.FieldRef != nil:
		value, err := p.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := amount(p.current(), c.Name, from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		data, err := p.configMap(ctx, r.Name, r.Optional)
		return key(data, r.Key, r.Optional, err)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		data, err := p.secret(ctx, r.Name, r.Optional)
		return key(data, r.Key, r.Optional, err)
	}
	return "", false, fmt.Errorf("this kind of valueFrom is not supported")
}

func key(data map[string][]byte, name string, optional *bool, err error) (string, bool, error) {
	value, found := data[name]
	if err == nil && !found && !ptr.Deref(optional, false) {
		err = fmt.Errorf("key %q is missing", name)
	}
	return string(value), found, err
}

// configMap returns a ConfigMap's data, none where an optional one is missing.
func (p *pod) configMap(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	object, err := p.runner.Client.CoreV1().ConfigMaps(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missing(err, optional)
	}
	data := map[string][]byte{}
	for k, v := range object.Data {
		data[k] = []byte(v)
	}
	for k, v := range object.BinaryData {
		data[k] = v
	}
	return data, nil
}

func (p *pod) secret(ctx context.Context, name string, optional *bool) (map[string][]byte, error) {
	object, err := p.runner.Client.CoreV1().Secrets(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, missing(err, optional)
	}
	return object.Data, nil
}

func missing(err error, optional *bool) error {
	if apierrors.IsNotFound(err) && ptr.Deref(optional, false) {
		return nil
	}
	return err
}

// field is a fieldRef of the downward API.
func (p *pod) field(path string) (string, error) {
	o := p.current()
	if name, isMap := strings.CutSuffix(path, "']"); isMap {
		kind, name, _ := strings.Cut(name, "['")
		switch kind {
		case "metadata.labels":
			return o.Labels[name], nil
		case "metadata.annotations":
			return o.Annotations[name], nil
		}
	}
	node := p.runner.Node
	value, known := map[string]string{
		"metadata.name": o.Name, "metadata.namespace": o.Namespace, "metadata.uid": string(o.UID),
		"metadata.labels": lines(o.Labels), "metadata.annotations": lines(o.Annotations),
		"spec.nodeName": NodeName, "spec.serviceAccountName": o.Spec.ServiceAccountName,
		"status.podIP": p.address(), "status.podIPs": p.address(), "status.hostIP": node, "status.hostIPs": node,
	}[path]
	if !known {
		return "", fmt.Errorf("fieldPath %q is not supported", path)
	}
	return value, nil
}

// lines writes a map as the downward API does: name="value", sorted.
func lines(m map[string]string) string {
	out := make([]string, 0, len(m))
	for _, k := range sorted(m) {
		out = append(out, k+"="+strconv.Quote(m[k]))
	}
	return strings.Join(out, "\n")
}

// amount is a resourceFieldRef: in units of the divisor, rounded up; what the container does not limit is the machine's.
func amount(o *corev1.Pod, container string, ref *corev1.ResourceFieldSelector) (string, error) {
	if ref.ContainerName != "" {
		container = ref.ContainerName
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	for _, c := range o.Spec.Containers {
		if c.Name != container {
			continue
		}
		list := map[string]corev1.ResourceList{"limits": c.Resources.Limits, "requests": c.Resources.Requests}[kind]
		quantity, given := list[corev1.ResourceName(name)]
		switch {
		case given:
		case name == "cpu":
			quantity = *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI)
		default:
			quantity = resource.MustParse("1Gi")
		}
		divisor := ref.Divisor.AsApproximateFloat64()
		if divisor == 0 {
			divisor = 1
		}
		return strconv.FormatInt(int64(math.Ceil(quantity.AsApproximateFloat64()/divisor)), 10), nil
	}
	return "", fmt.Errorf("resourceFieldRef: no container %q", container)
}

// expand replaces $(NAME) by its value, as Kubernetes does: what is not set stays, and $$ is a dollar.
func expand(s string, values map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		s = after
		name, rest, closed := strings.Cut(strings.TrimPrefix(s, "("), ")")
		switch value, known := values[name]; {
		case strings.HasPrefix(s, "$"):
			out.WriteByte('$')
			s = s[1:]
		case strings.HasPrefix(s, "(") && closed && known:
			out.WriteString(value)
			s = rest
		case strings.HasPrefix(s, "(") && closed:
			out.WriteString("$(" + name + ")")
			s = rest
		default:
			out.WriteByte('$')
		}
	}
}
