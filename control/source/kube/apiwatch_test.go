package kube

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// typed is the object with its kind, as it goes over the wire.
func typed(o metav1.Object) runtime.Object {
	made := o.(runtime.Object).DeepCopyObject()
	switch made := made.(type) {
	case *netv1.Ingress:
		made.TypeMeta = metav1.TypeMeta{Kind: "Ingress", APIVersion: "networking.k8s.io/v1"}
	case *netv1.IngressClass:
		made.TypeMeta = metav1.TypeMeta{Kind: "IngressClass", APIVersion: "networking.k8s.io/v1"}
	case *corev1.Service:
		made.TypeMeta = metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}
	case *corev1.Secret:
		made.TypeMeta = metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}
	case *discoveryv1.EndpointSlice:
		made.TypeMeta = metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"}
	case *coordinationv1.Lease:
		made.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
	case *eventsv1.Event:
		made.TypeMeta = metav1.TypeMeta{Kind: "Event", APIVersion: "events.k8s.io/v1"}
	}
	return made
}

// selected reports whether a list or watch has the object.
func selected(r *http.Request, q request, o metav1.Object) bool {
	if resourceOf(o) != q.resource || q.namespace != "" && o.GetNamespace() != q.namespace {
		return false
	}
	field, value, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
	switch field {
	case "metadata.name":
		return o.GetName() == value
	case "type":
		return string(o.(*corev1.Secret).Type) == value
	}
	return true
}

func (a *api) list(r *http.Request, q request) *http.Response {
	var items []any
	for _, at := range slices.Sorted(maps.Keys(a.objects)) {
		if o := a.objects[at]; selected(r, q, o) {
			items = append(items, typed(o))
		}
	}
	kinds := map[string][2]string{
		"ingresses": {"IngressList", "networking.k8s.io/v1"}, "ingressclasses": {"IngressClassList", "networking.k8s.io/v1"}, "services": {"ServiceList", "v1"},
		"secrets": {"SecretList", "v1"}, "endpointslices": {"EndpointSliceList", "discovery.k8s.io/v1"},
	}
	return reply(r, 200, map[string]any{
		"kind": kinds[q.resource][0], "apiVersion": kinds[q.resource][1], "metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version)}, "items": items,
	})
}

// watch answers a watch; a.mu is held.
func (a *api) watch(r *http.Request, q request) *http.Response {
	from, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	if initial && a.oldKind {
		return failure(r, 422, "sendInitialEvents: Forbidden")
	}
	if !initial && from < a.oldest {
		return failure(r, 410, "too old resource version")
	}
	var lines [][]byte
	line := func(kind string, o any) {
		text, err := json.Marshal(map[string]any{"type": kind, "object": o})
		if err != nil {
			panic(err)
		}
		lines = append(lines, append(text, '\n'))
	}
	if initial {
		for _, at := range slices.Sorted(maps.Keys(a.objects)) {
			if o := a.objects[at]; selected(r, q, o) {
				line("ADDED", typed(o))
			}
		}
		mark := map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version), "annotations": map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		kind := map[string][2]string{
			"ingresses": {"Ingress", "networking.k8s.io/v1"}, "ingressclasses": {"IngressClass", "networking.k8s.io/v1"}, "services": {"Service", "v1"},
			"secrets": {"Secret", "v1"}, "endpointslices": {"EndpointSlice", "discovery.k8s.io/v1"},
		}[q.resource]
		mark["kind"], mark["apiVersion"] = kind[0], kind[1]
		line("BOOKMARK", mark)
		from = a.version
	}
	reader, writer := io.Pipe()
	a.watching++
	go a.stream(r, q, writer, from, lines)
	return &http.Response{StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{"Content-Type": {"application/json"}}, Body: reader, ContentLength: -1}
}

// stream writes what happens until the client or the test ends it.
func (a *api) stream(r *http.Request, q request, w *io.PipeWriter, from int, lines [][]byte) {
	defer a.set(func() { a.watching-- })
	a.mu.Lock()
	cut := a.cut
	a.mu.Unlock()
	for sent := 0; ; {
		for _, l := range lines {
			if _, err := w.Write(l); err != nil {
				return
			}
		}
		lines = nil
		a.mu.Lock()
		more, mangle := a.more, a.mangle
		for _, c := range a.history {
			if c.version <= from || !selected(r, q, c.object) {
				continue
			}
			from = c.version
			text, _ := json.Marshal(map[string]any{"type": c.kind, "object": typed(c.object)})
			made := [][]byte{append(text, '\n')}
			if mangle != nil {
				made = mangle(sent, made[0])
			}
			sent++
			lines = append(lines, made...)
		}
		if a.hang {
			lines = nil
		}
		a.mu.Unlock()
		if len(lines) > 0 {
			continue
		}
		select {
		case <-more:
		case <-cut:
			_ = w.Close()
			return
		case <-r.Context().Done():
			_ = w.CloseWithError(r.Context().Err())
			return
		}
	}
}

// single answers what is about one object; a.mu is held.
func (a *api) single(r *http.Request, q request, body []byte) *http.Response {
	resource, part, _ := strings.Cut(q.resource, "/")
	old := a.objects[path(resource, q.namespace, q.name)]
	switch {
	case q.verb == "create" || q.verb == "update":
		decoded, _, err := a.codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return failure(r, 400, err.Error())
		}
		o := decoded.(metav1.Object)
		before := a.objects[path(resource, q.namespace, o.GetName())]
		switch {
		case q.verb == "create" && before != nil:
			return failure(r, -409, "already there")
		case q.verb == "update" && before == nil:
			return failure(r, 404, q.String())
		case q.verb == "update" && o.GetResourceVersion() != before.GetResourceVersion():
			return failure(r, 409, "the object has been modified")
		}
		return reply(r, 200, typed(a.store(o)))
	case old == nil:
		return failure(r, 404, q.String())
	case q.verb == "get":
		return reply(r, 200, typed(old))
	}
	return a.patch(r, q, part, old, body)
}

func (a *api) patch(r *http.Request, q request, part string, old metav1.Object, body []byte) *http.Response {
	var p struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Status json.RawMessage       `json:"status"`
		Series *eventsv1.EventSeries `json:"series"`
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return failure(r, 400, err.Error())
	}
	if v := p.Metadata.ResourceVersion; v != "" && v != old.GetResourceVersion() {
		return failure(r, 409, "the object has been modified")
	}
	made := old.(runtime.Object).DeepCopyObject().(metav1.Object)
	switch o := made.(type) {
	case *netv1.Ingress:
		if part != "status" {
			return failure(r, 403, "only the status may be written")
		}
		o.Status.LoadBalancer.Ingress = nil
		if err := json.Unmarshal(p.Status, &o.Status); err != nil {
			return failure(r, 400, err.Error())
		}
		o.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: q.from, Subresource: "status"}}
	case *eventsv1.Event:
		o.Series = p.Series
	}
	return reply(r, 200, typed(a.store(made)))
}
