package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// api is an API server in memory, reached without a network, so that tests can run in time that is not real. It knows lists, watches
// that begin with a list, field selectors, merge patches of a status, field managers, conflicts and expired versions.
type api struct {
	codecs serializer.CodecFactory

	mu       sync.Mutex
	version  int
	objects  map[string]metav1.Object // by resource/namespace/name
	history  []change
	oldest   int           // versions before it are compacted away
	more     chan struct{} // closed when history grows
	cut      chan struct{} // closed to end all watches
	requests []request
	answer   func(r request) int // a status instead of the right answer; 0 is none
	down     error               // of every connection
	oldKind  bool                // it cannot begin a watch with a list
	mangle   func(n int, line []byte) [][]byte
	watching int  // how many watches are open
	hang     bool // no request is answered, no watch has news
}

type change struct {
	version  int
	resource string
	kind     string // ADDED, MODIFIED, DELETED
	object   metav1.Object
}

type request struct {
	verb, resource, namespace, name string
	at                              time.Time
	body                            string
	from                            string // by the fieldManager
}

func (r request) String() string {
	return strings.Join(slices.DeleteFunc([]string{r.verb, r.resource, r.namespace, r.name}, func(s string) bool { return s == "" }), " ")
}

func newAPI(t *testing.T, objects ...metav1.Object) *api {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	a := &api{codecs: serializer.NewCodecFactory(scheme), version: 10, objects: map[string]metav1.Object{}, more: make(chan struct{}), cut: make(chan struct{})}
	for _, o := range objects {
		a.put(o)
	}
	return a
}

func (a *api) config() *rest.Config {
	return &rest.Config{Host: "http://api.test", Transport: a, UserAgent: "sluice/test"}
}

func resourceOf(o any) string {
	switch o.(type) {
	case *netv1.Ingress:
		return "ingresses"
	case *netv1.IngressClass:
		return "ingressclasses"
	case *corev1.Service:
		return "services"
	case *corev1.Secret:
		return "secrets"
	case *discoveryv1.EndpointSlice:
		return "endpointslices"
	case *coordinationv1.Lease:
		return "leases"
	case *eventsv1.Event:
		return "events"
	}
	panic(fmt.Sprintf("no resource for %T", o))
}

func path(resource, namespace, name string) string { return resource + "/" + namespace + "/" + name }

// put creates or updates an object.
func (a *api) put(o metav1.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store(o)
}

func (a *api) store(o metav1.Object) metav1.Object {
	a.version++
	o = o.(runtime.Object).DeepCopyObject().(metav1.Object)
	resource := resourceOf(o)
	at := path(resource, o.GetNamespace(), o.GetName())
	kind, old := "ADDED", a.objects[at]
	if old != nil {
		kind = "MODIFIED"
		o.SetUID(old.GetUID())
	} else if o.GetUID() == "" {
		o.SetUID(types.UID(fmt.Sprint("uid-", a.version)))
	}
	o.SetResourceVersion(strconv.Itoa(a.version))
	a.objects[at] = o
	a.record(change{a.version, resource, kind, o})
	return o
}

func (a *api) record(c change) {
	a.history = append(a.history, c)
	close(a.more)
	a.more = make(chan struct{})
}

func (a *api) remove(o metav1.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := path(resourceOf(o), o.GetNamespace(), o.GetName())
	old := a.objects[at]
	if old == nil {
		return
	}
	delete(a.objects, at)
	a.version++
	gone := old.(runtime.Object).DeepCopyObject().(metav1.Object)
	gone.SetResourceVersion(strconv.Itoa(a.version))
	a.record(change{a.version, resourceOf(o), "DELETED", gone})
}

// get returns a copy of an object, nil when there is none.
func get[T metav1.Object](a *api, namespace, name string) (o T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.objects[path(resourceOf(o), namespace, name)]
	if found != nil {
		o = found.(runtime.Object).DeepCopyObject().(T)
	}
	return o
}

// all returns the objects of a resource.
func all[T metav1.Object](a *api) (found []T) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, o := range a.objects {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// set changes how the server behaves.
func (a *api) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// endWatches ends every watch that is open.
func (a *api) endWatches() {
	a.set(func() {
		close(a.cut)
		a.cut = make(chan struct{})
	})
}

// compact forgets all versions before the present one.
func (a *api) compact() { a.set(func() { a.oldest = a.version }) }

// count is how many requests there were that are what words say, such as "list ingresses".
func (a *api) count(words string) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.requests {
		if s := r.String(); s == words || strings.HasPrefix(s, words+" ") {
			n++
		}
	}
	return n
}

// asked returns all requests so far.
func (a *api) asked() []request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// changes returns all that happened so far.
func (a *api) changes() []change {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.history)
}

// open is how many watches are open.
func (a *api) open() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watching
}

func (a *api) forgetRequests() { a.set(func() { a.requests = nil }) }

// RoundTrip answers.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	asked := parse(r)
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
		asked.body = string(body)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	asked.at = time.Now()
	a.requests = append(a.requests, asked)
	if a.down != nil {
		return nil, a.down
	}
	if a.hang {
		a.mu.Unlock()
		defer a.mu.Lock()
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if a.answer != nil {
		if code := a.answer(asked); code != 0 {
			return failure(r, code, asked.String()), nil
		}
	}
	switch asked.verb {
	case "watch":
		return a.watch(r, asked), nil
	case "list":
		return a.list(r, asked), nil
	}
	return a.single(r, asked, body), nil
}

// parse reads /api/v1/namespaces/NS/RESOURCE/NAME/SUB and the like.
func parse(r *http.Request) request {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] == "api" {
		parts = parts[2:]
	} else {
		parts = parts[3:]
	}
	var q request
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.namespace, parts = parts[1], parts[2:]
	}
	q.resource = parts[0]
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.resource += "/" + parts[2]
	}
	q.from = r.URL.Query().Get("fieldManager")
	q.verb = map[string]string{"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch"}[r.Method]
	switch {
	case r.URL.Query().Get("watch") != "":
		q.verb = "watch"
	case q.verb == "get" && q.name == "":
		q.verb = "list"
	}
	if q.verb == "list" || q.verb == "watch" {
		if _, name, found := strings.Cut(r.URL.Query().Get("fieldSelector"), "metadata.name="); found {
			q.name = name
		}
	}
	return q
}

func failure(r *http.Request, code int, what string) *http.Response {
	reasons := map[int]metav1.StatusReason{
		401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 410: metav1.StatusReasonExpired,
		422: metav1.StatusReasonInvalid, 429: metav1.StatusReasonTooManyRequests, 500: metav1.StatusReasonInternalError, 503: metav1.StatusReasonServiceUnavailable,
	}
	if code == -409 {
		code, reasons[409] = 409, metav1.StatusReasonAlreadyExists
	}
	return reply(r, code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reasons[code],
		Message: fmt.Sprintf("%s: %d", what, code),
	})
}

func reply(r *http.Request, code int, o any) *http.Response {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(text))), ContentLength: int64(len(text)),
	}
}
