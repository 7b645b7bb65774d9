package translate_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// filler fills values of any type from fuzz bytes; when they end, everything is zero.
type filler struct{ bytes []byte }

func (f *filler) next() int {
	if len(f.bytes) == 0 {
		return 0
	}
	b := f.bytes[0]
	f.bytes = f.bytes[1:]
	return int(b)
}

// words are texts that make objects meet, and some that make trouble.
func words() []string {
	return []string{
		"", "web", "api", "http", "TCP", "UDP", "Prefix", "Exact", "/", "/a", "/a/", "a.test", "*.test", "*", "a..b", "10.0.0.1", "::1", "IPv4", "IPv6", "FQDN",
		"kubernetes.io/tls", "tls.crt", "tls.key", "sluice", "sluice.dev/ssl-redirect", "sluice.dev/x", "kubernetes.io/ingress.class",
		"ingressclass.kubernetes.io/is-default-class", "kubernetes.io/service-name", "true", "ExternalName", model.ControllerName, "\x00", "é", "{{.}}", "`$(x)`\n", "%2f", "a/b:80",
		strings.Repeat("x", 5000),
	}
}

func (f *filler) text() string { return words()[f.next()%len(words())] }

func (f *filler) fill(v reflect.Value, depth int) {
	if depth > 12 {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if f.next()%3 > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() {
			v.Set(reflect.ValueOf(metav1.Unix(int64(f.next()%4), 0)))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		n := f.next() % 4
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.next() % 3 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key, depth+1)
			f.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.next()%2 == 1)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 80, 81, -1, 70000, 1 << 30}[f.next()%6])
	case reflect.Uint8:
		v.SetUint(uint64(f.next()))
	}
}

// object is an arbitrary object of the API. Name, spec and the like come first, so that few bytes say much.
func (f *filler) object() *store.Object {
	name := []string{"web", "api", "a"}[f.next()%3]
	var made *store.Object
	switch f.next() % 5 {
	case 0:
		o := &netv1.Ingress{}
		f.fill(reflect.ValueOf(&o.Spec).Elem(), 0)
		f.fill(reflect.ValueOf(&o.ObjectMeta).Elem(), 0)
		o.Name, o.Namespace = name, "shop"
		made, _ = store.FromAPI(o)
	case 1:
		o := &corev1.Service{}
		f.fill(reflect.ValueOf(&o.Spec).Elem(), 0)
		o.Name, o.Namespace = name, "shop"
		made, _ = store.FromAPI(o)
	case 2:
		o := &discoveryv1.EndpointSlice{}
		f.fill(reflect.ValueOf(o).Elem(), 0)
		o.Name, o.Namespace, o.Labels = name, "shop", map[string]string{discoveryv1.LabelServiceName: "web"}
		made, _ = store.FromAPI(o)
	case 3:
		o := &corev1.Secret{}
		f.fill(reflect.ValueOf(o).Elem(), 0)
		o.Name, o.Namespace = name, "shop"
		made, _ = store.FromAPI(o)
	default:
		o := &netv1.IngressClass{}
		f.fill(reflect.ValueOf(o).Elem(), 0)
		o.Name = []string{"sluice", "web", "a"}[f.next()%3]
		made, _ = store.FromAPI(o)
	}
	return made
}

// FuzzObjects translates arbitrary API objects, in one step and in several, with the same result.
func FuzzObjects(f *testing.F) {
	f.Add([]byte{})
	for seed := range 40 {
		var b []byte
		for i := range 300 {
			b = append(b, byte((i*31+seed*17)^(i>>seed%5)))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fill := &filler{data}
		s := store.New("kube")
		c := controller()
		c.Any = fill.next()%4 > 0
		o := translate.Options{Controllers: []*model.IngressController{c}}
		follower := translate.New(o)
		for range 2 {
			for range 5 {
				s.Apply("kube", []*store.Object{fill.object()}, nil)
			}
			view, keys := s.Take()
			config, report := follower.Update(view, keys)
			want, wantReport := translate.Translate(view, o)
			if diff := compareConfigs(want, config); diff != "" {
				t.Fatal(diff)
			}
			if !reflect.DeepEqual(entriesOf(wantReport), entriesOf(report)) {
				t.Fatal("the reports differ")
			}
			model.Dump(config)
		}
	})
}

// FuzzManifests decodes and translates arbitrary text.
func FuzzManifests(f *testing.F) {
	files, err := filepath.Glob("ingress/testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		docs, _ := document.Parse("in.yaml", text)
		var objects []*store.Object
		for _, doc := range docs {
			if o, _ := store.Decode(doc); o != nil {
				objects = append(objects, o)
			}
		}
		s := store.New("files")
		s.Replace("files", objects)
		view, _ := s.Take()
		o := options()
		config, report := translate.Translate(view, o)
		model.Dump(config)
		for e := range report.All() {
			if e.Key == (model.Key{}) {
				t.Errorf("an entry about nothing: %v", e)
			}
		}
		for _, rs := range config.RuleSets {
			for host, rule := range rs.Hosts.All() {
				for _, p := range rule.Paths {
					translate.Explain(view, o, translate.ExplainRequest{Host: host, Path: "/", Route: p.Origin.String()})
				}
			}
		}
		_ = fmt.Sprint(report.Problems())
	})
}
