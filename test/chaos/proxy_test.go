package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"sluice.dev/sluice/test/chaos"
	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/lane"
)

var shared lane.Lane

func TestMain(m *testing.M) { os.Exit(lane.Main(m, &shared)) }

// start starts a proxy, and returns clients through it: one in JSON and one in protobuf.
func start(t *testing.T) (*chaos.Proxy, map[string]*kubernetes.Clientset) {
	t.Helper()
	server, err := shared.Authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := chaos.Start(chaos.Settings{Upstream: shared.Server, CA: shared.Authority.PEM, Listen: "127.0.0.1:0", TLS: server, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	clients := map[string]*kubernetes.Clientset{}
	for name, contentType := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		config := shared.Config()
		config.Host, config.ContentType = proxy.URL, contentType
		config.AcceptContentTypes = contentType + "," + runtime.ContentTypeJSON
		if clients[name], err = kubernetes.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
	}
	return proxy, clients
}

func play(t *testing.T, p *chaos.Proxy, script string) {
	t.Helper()
	s, err := chaos.Parse([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	p.Play(s)
}

func namespace(ctx context.Context, t *testing.T) string {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-", ".", "-").Replace(t.Name()))
	if err := shared.Namespace(ctx, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestScripts plays each script of testdata while objects are made, changed and deleted: reflectors behind the proxy end up with what
// the API server has.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			ctx := shared.Need(t)
			ns := namespace(ctx, t)
			script, err := chaos.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			proxy, clients := start(t)
			proxy.Play(script)
			reflecting, stop := context.WithCancel(ctx)
			var all sync.WaitGroup
			defer all.Wait()
			defer stop()
			stores := map[string]cache.Store{}
			for name, client := range clients {
				store := cache.NewStore(cache.MetaNamespaceKeyFunc)
				stores[name] = store
				all.Go(func() { reflect(reflecting, client.CoreV1().RESTClient(), ns, store) })
			}
			churn(ctx, t, ns, proxy)
			want := versions(ctx, t, ns)
			for name, store := range stores {
				err := cluster.Wait(ctx, "the reflector to agree", func(context.Context) (bool, error) { return maps.Equal(want, have(store)), nil })
				if err != nil {
					t.Errorf("%s: %v\nwant %v\nhave %v", name, err, want, have(store))
				}
			}
		})
	}
}

// reflect follows ConfigMaps until the context ends.
func reflect(ctx context.Context, client rest.Interface, ns string, store cache.Store) {
	list := cache.NewListWatchFromClient(client, "configmaps", ns, fields.Everything())
	cache.NewReflectorWithOptions(list, &corev1.ConfigMap{}, store, cache.ReflectorOptions{
		Backoff: &wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Cap: time.Second, Steps: 10, Jitter: 0.2},
	}).RunWithContext(ctx)
}

// churn changes objects, past the proxy, until all of the script has happened, and a while at least.
func churn(ctx context.Context, t *testing.T, ns string, proxy *chaos.Proxy) {
	t.Helper()
	objects := shared.Client().CoreV1().ConfigMaps(ns)
	for i := 0; i < 300 || len(proxy.Open()) > 0; i++ {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%d", i*i%17)}, Data: map[string]string{"i": fmt.Sprint(i)}}
		_, err := objects.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) && i%3 == 0 {
			err = objects.Delete(ctx, object.Name, metav1.DeleteOptions{})
		} else if apierrors.IsAlreadyExists(err) {
			_, err = objects.Update(ctx, object, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatalf("%v; still open: %v", err, proxy.Open())
		}
	}
}

func versions(ctx context.Context, t *testing.T, ns string) map[string]string {
	t.Helper()
	list, err := shared.Client().CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, o := range list.Items {
		out[o.Namespace+"/"+o.Name] = o.ResourceVersion
	}
	return out
}

func have(s cache.Store) map[string]string {
	out := map[string]string{}
	for _, o := range s.List() {
		m := o.(*corev1.ConfigMap)
		out[m.Namespace+"/"+m.Name] = m.ResourceVersion
	}
	return out
}

// TestAnswers shows what clients see of what is done to requests.
func TestAnswers(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	proxy, clients := start(t)
	for name, client := range clients {
		get := func() error {
			limit, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err := client.CoreV1().ConfigMaps(ns).Get(limit, "kube-root-ca.crt", metav1.GetOptions{})
			return err
		}
		for _, test := range []struct {
			rule string
			is   func(error) bool
		}{
			{"{do: answer, code: 403}", apierrors.IsForbidden},
			{"{do: answer, code: 404}", apierrors.IsNotFound},
			{"{do: answer, code: 409}", apierrors.IsConflict},
			{"{do: answer, code: 410}", apierrors.IsResourceExpired},
			{"{do: answer, code: 429}", apierrors.IsTooManyRequests},
			{"{do: answer, code: 500}", apierrors.IsInternalError},
			{"{do: answer, code: 503}", apierrors.IsServiceUnavailable},
			{"{do: cut}", func(err error) bool { return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }},
			{"{do: cutConnections}", func(err error) bool { return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }},
			{"{do: hang}", func(err error) bool { return err != nil && strings.Contains(err.Error(), "deadline") }},
			{"{do: delay, time: 10ms}", func(err error) bool { return err == nil }},
			{"{do: cut, namespaces: [other]}", func(err error) bool { return err == nil }},
			{"{do: answer, code: 500, verbs: [list]}", func(err error) bool { return err == nil }},
			{"{do: answer, code: 500, resources: [secrets]}", func(err error) bool { return err == nil }},
			{"{do: answer, code: 429, retryAfter: 1, times: 1}", func(err error) bool { return err == nil }}, // the client tries again
		} {
			play(t, proxy, "rules: ["+test.rule+"]")
			if err := get(); !test.is(err) {
				t.Errorf("%s: %s: %v", name, test.rule, err)
			}
		}
		play(t, proxy, "rules: [{do: lose, verbs: [create]}]")
		if _, err := client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err == nil {
			t.Errorf("%s: a lost answer arrived", name)
		}
		if _, err := shared.Client().CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
			t.Errorf("%s: a request whose answer was lost was not done: %v", name, err)
		}
	}
}

// TestEvents shows what clients see of what is done to events.
func TestEvents(t *testing.T) {
	ctx := shared.Need(t)
	ns := namespace(ctx, t)
	objects := shared.Client().CoreV1().ConfigMaps(ns)
	for _, name := range []string{"json", "protobuf"} {
		for _, test := range []struct{ rule, want string }{
			{"", "ADDED a, ADDED b, MODIFIED a, MODIFIED a, DELETED b, MODIFIED a"},
			{"{do: duplicateEvent, events: [DELETED]}", "ADDED a, ADDED b, MODIFIED a, MODIFIED a, DELETED b, DELETED b, MODIFIED a"},
			{"{do: reorderEvents, times: 1, time: 1h}", "ADDED b, ADDED a, MODIFIED a, MODIFIED a, DELETED b, MODIFIED a"},
			{"{do: reorderEvents, events: [MODIFIED], time: 1h}", "ADDED a, ADDED b, MODIFIED a, DELETED b, MODIFIED a"}, // the last waits
			{"{do: endWatch, events: [DELETED]}", "ADDED a, ADDED b, MODIFIED a, MODIFIED a, end"},
			{"{do: cutWatch, events: [DELETED]}", "ADDED a, ADDED b, MODIFIED a, MODIFIED a, ERROR InternalError, end"}, // client-go's own error,
			{"{do: expireWatch, skip: 2}", "ADDED a, ADDED b, ERROR Expired, end"},
			{"{do: delayEvent, time: 50ms}", "ADDED a, ADDED b, MODIFIED a, MODIFIED a, DELETED b, MODIFIED a"},
		} {
			proxy, clients := start(t) // one for each: what is left of a watch must not meet the next script
			play(t, proxy, "rules: ["+test.rule+"]")
			list, err := objects.List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			w, err := clients[name].CoreV1().ConfigMaps(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
			if err != nil {
				t.Fatalf("%s: %s: %v", name, test.rule, err)
			}
			change(ctx, t, ns)
			if got := collect(ctx, w, strings.Count(test.want, ",")+1); got != test.want {
				t.Errorf("%s: %s: got  %s, want %s", name, test.rule, got, test.want)
			}
			w.Stop()
		}
	}
}

// change makes the events that TestEvents expects, and cleans up.
func change(ctx context.Context, t *testing.T, ns string) {
	t.Helper()
	objects := shared.Client().CoreV1().ConfigMaps(ns)
	object := func(name, data string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"data": data}}
	}
	do := func(_ any, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	do(objects.Create(ctx, object("a", "1"), metav1.CreateOptions{}))
	do(objects.Create(ctx, object("b", "1"), metav1.CreateOptions{}))
	do(objects.Update(ctx, object("a", "2"), metav1.UpdateOptions{}))
	do(objects.Update(ctx, object("a", "3"), metav1.UpdateOptions{}))
	do(nil, objects.Delete(ctx, "b", metav1.DeleteOptions{}))
	do(objects.Update(ctx, object("a", "4"), metav1.UpdateOptions{}))
	do(nil, objects.Delete(ctx, "a", metav1.DeleteOptions{}))
}

// collect reads so many events, "end" for the end of the watch.
func collect(ctx context.Context, w watch.Interface, n int) string {
	var out []string
	for len(out) < n {
		select {
		case e, open := <-w.ResultChan():
			switch object := e.Object.(type) {
			case *corev1.ConfigMap:
				out = append(out, string(e.Type)+" "+object.Name)
			case *metav1.Status:
				out = append(out, string(e.Type)+" "+string(object.Reason))
			default:
				out = append(out, "end")
			}
			if !open {
				return strings.Join(out, ", ")
			}
		case <-ctx.Done():
			return strings.Join(append(out, ctx.Err().Error()), ", ")
		}
	}
	return strings.Join(out, ", ")
}
