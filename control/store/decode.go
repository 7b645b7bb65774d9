package store

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netv1 "k8s.io/api/networking/v1"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/document"
)

// ReasonForeignKind is that of the note on a document of a kind that is not used here.
const ReasonForeignKind = "ForeignKind"

// apiVersions are those that the used kinds are read in.
func apiVersions() map[string]string {
	return map[string]string{
		KindIngress: "networking.k8s.io/v1", KindIngressClass: "networking.k8s.io/v1",
		KindService: "v1", KindSecret: "v1", KindEndpointSlice: "discovery.k8s.io/v1",
	}
}

// Decode makes the object of a document, nil when nothing can come of it: a kind that is not used, or a mistake other than an
// unknown field of a Kubernetes kind. The problems stand in the object too.
func Decode(doc *document.Document) (*Object, []model.Problem) {
	o, problems := decode(doc)
	if o == nil {
		return nil, problems
	}
	o.File, o.Line, o.Problems = doc.File, doc.Line, problems
	return o, problems
}

func decode(doc *document.Document) (*Object, []model.Problem) {
	wanted := apiVersions()[doc.Kind]
	group, _, _ := strings.Cut(doc.APIVersion, "/")
	wantedGroup, _, _ := strings.Cut(wanted, "/")
	switch {
	case wanted != "" && doc.APIVersion == wanted:
		return decodeKubernetes(doc)
	case wanted != "" && doc.APIVersion == "":
		return nil, mistake(doc, "apiVersion", "NoAPIVersion", "kind "+doc.Kind+" needs an apiVersion", "write apiVersion: "+wanted)
	case wanted != "" && (group == wantedGroup || group == "extensions"):
		return nil, mistake(doc, "apiVersion", "UnknownAPIVersion", fmt.Sprintf("apiVersion %q of kind %s is not known", doc.APIVersion, doc.Kind), "write apiVersion: "+wanted)
	case doc.Kind == "":
		return nil, mistake(doc, "", "KindMissing", "the document has no kind", kindFor(group))
	case doc.APIVersion == "":
		return decodeOwn(doc)
	}
	if kind := meant(doc.Kind, doc.APIVersion); kind != "" {
		return nil, mistake(doc, "kind", "UnknownKind", fmt.Sprintf("kind %q of %s is not known", shorten(doc.Kind), doc.APIVersion), fmt.Sprintf("did you mean %q?", kind))
	}
	return nil, []model.Problem{{
		Origin: model.Origin{Key: keyOf(doc)}, Reason: ReasonForeignKind, Severity: model.Warning,
		Message: fmt.Sprintf("kind %s of %s is not used", doc.Kind, doc.APIVersion),
	}}
}

// kindFor says how to begin a document of an API group.
func kindFor(group string) string {
	switch group {
	case "networking.k8s.io":
		return "add kind: Ingress, or kind: IngressClass"
	case "discovery.k8s.io":
		return "add kind: EndpointSlice"
	case "v1":
		return "add kind: Service, or kind: Secret"
	}
	return "begin it with kind: " + strings.Join(model.Kinds(), ", kind: ") + ", or with the apiVersion and kind of an Ingress, Service, EndpointSlice or Secret"
}

// meant is the used kind of an apiVersion that a misspelt one stands for, such as ingress or Ingresses; "" when it is none.
func meant(kind, apiVersion string) string {
	var known []string
	for k, version := range apiVersions() {
		if version == apiVersion {
			known = append(known, k)
		}
	}
	slices.Sort(known)
	for _, k := range known {
		if strings.EqualFold(kind, k) || strings.EqualFold(kind, k+"s") || strings.EqualFold(kind, k+"es") {
			return k
		}
	}
	if near := document.Nearest(kind, known); len(near) >= len(kind)-2 && len(near) <= len(kind)+2 { // a ServiceAccount is no slip of Service
		return near
	}
	return ""
}

func mistake(doc *document.Document, field, reason, message, mend string) []model.Problem {
	return []model.Problem{{Origin: model.Origin{Key: keyOf(doc), Field: field}, Reason: reason, Message: message, Mend: mend, Severity: model.Error}}
}

// decodeOwn reads a kind of Sluice.
func decodeOwn(doc *document.Document) (*Object, []model.Problem) {
	value, problems := model.Decode(doc)
	if value == nil || hasError(problems) {
		return nil, problems
	}
	return NewObject(doc.Kind, "", doc.Name, value), problems
}

func hasError(problems []model.Problem) bool {
	for _, p := range problems {
		if p.Severity == model.Error {
			return true
		}
	}
	return false
}

// keyOf is the key that the object of a document has.
func keyOf(doc *document.Document) model.Key {
	key := model.Key{Kind: doc.Kind, Namespace: doc.Namespace, Name: doc.Name}
	switch {
	case doc.Kind == KindIngressClass || apiVersions()[doc.Kind] == "":
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = "default"
	}
	return key
}

func decodeKubernetes(doc *document.Document) (*Object, []model.Problem) {
	var into any
	switch doc.Kind {
	case KindIngress:
		into = new(netv1.Ingress)
	case KindIngressClass:
		into = new(netv1.IngressClass)
	case KindService:
		into = new(corev1.Service)
	case KindEndpointSlice:
		into = new(discoveryv1.EndpointSlice)
	case KindSecret:
		into = new(corev1.Secret)
	}
	problems := fieldProblems(doc, doc.Decode(into))
	key := keyOf(doc)
	problems = append(problems, nameProblems(key)...)
	if hasError(problems) && (doc.Kind != KindSecret || len(nameProblems(key)) > 0) {
		return nil, problems
	}
	made, _ := FromAPI(into)
	problems = append(problems, valueProblems(key, made.Value)...)
	return NewObject(kindName(doc.Kind), known(key.Namespace), key.Name, made.Value), problems
}

// fieldProblems says what is wrong with fields. A Secret whose data cannot be read is kept, so that those who refer to it learn that it is
// there and broken.
func fieldProblems(doc *document.Document, errs []document.FieldError) []model.Problem {
	var problems []model.Problem
	for _, e := range errs {
		severity := model.Error
		if e.Reason == document.UnknownField {
			severity = model.Warning
		}
		problems = append(problems, model.Problem{
			Origin: model.Origin{Key: keyOf(doc), Field: e.Path}, Reason: e.Reason, Message: e.Message, Mend: e.Mend, Severity: severity,
		})
	}
	return problems
}

// kindName returns the constant, so that no object keeps the text of its document.
func kindName(kind string) string {
	for _, k := range [...]string{KindIngress, KindIngressClass, KindService, KindEndpointSlice, KindSecret} {
		if k == kind {
			return k
		}
	}
	return kind
}

// nameProblems checks the names as an API server does, so that no two objects can be taken for one another.
func nameProblems(key model.Key) []model.Problem {
	var problems []model.Problem
	check := func(field, what, value string, valid bool) {
		if !valid {
			problems = append(problems, model.Problem{
				Origin: model.Origin{Key: key, Field: field}, Reason: "InvalidName", Severity: model.Error,
				Message: fmt.Sprintf("%q is no %s", shorten(value), what), Mend: "use lower-case letters, digits, - and ., beginning and ending with a letter or digit",
			})
		}
	}
	if key.Name == "" {
		return append(problems, model.Problem{
			Origin: model.Origin{Key: key, Field: "metadata.name"}, Reason: "NameMissing", Severity: model.Error, Message: "the object has no name", Mend: "give it one",
		})
	}
	check("metadata.name", "name", key.Name, ValidName(key.Name))
	check("metadata.namespace", "namespace", key.Namespace, key.Namespace == "" || ValidName(key.Namespace) && !strings.Contains(key.Namespace, "."))
	return problems
}

// ValidName reports whether name is that of a Kubernetes object: lower-case letters, digits, - and ., at most 253 of them, the
// first and the last a letter or digit.
func ValidName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		alphanumeric := 'a' <= c && c <= 'z' || '0' <= c && c <= '9'
		if !alphanumeric && (i == 0 || i == len(name)-1 || c != '-' && c != '.') {
			return false
		}
	}
	return true
}

func shorten(s string) string {
	if len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(s[:60], "") + "…"
}
