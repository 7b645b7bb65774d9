package ingress

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// Classes are the IngressClass objects of a view.
type Classes struct {
	byName   map[string]*store.IngressClass
	standard string // the default class, "" when there is none
}

// NewClasses gathers the classes. Of several default classes the newest counts, of equally new ones the first by name.
func NewClasses(view store.View) *Classes {
	c := &Classes{byName: map[string]*store.IngressClass{}}
	for o, class := range store.List[*store.IngressClass](view, store.KindIngressClass) {
		c.byName[o.Key.Name] = class
		if class.Default && (c.standard == "" || age(class.Created) > age(c.byName[c.standard].Created)) {
			c.standard = o.Key.Name
		}
	}
	return c
}

// age orders creation times; a missing one is the youngest.
func age(created int64) int64 {
	if created == 0 {
		return math.MaxInt64
	}
	return created
}

// Claim is whether a controller serves an Ingress, and why.
type Claim struct {
	Ours    bool
	Why     string
	Field   string         // that decided; "" is none
	Mend    string         // when it is not ours
	Problem *model.Problem // nil: nothing is wrong
}

// className returns the class that an Ingress names and the field that does. The deprecated annotation comes before the field. An
// Ingress of a file that names none gets the default class, as an API server would have given it.
func (c *Classes) className(o *store.Object, in *store.Ingress) (name, field string) {
	if name := in.Annotations[store.ClassAnnotation]; name != "" {
		return name, "metadata.annotations[" + store.ClassAnnotation + "]"
	}
	if in.HasClass && in.Class != "" {
		return in.Class, "spec.ingressClassName"
	}
	if o.File != "" && c.standard != "" {
		return c.standard, ""
	}
	return "", ""
}

// Claim decides whether an Ingress is the controller's.
func (c *Classes) Claim(controller *model.IngressController, o *store.Object, in *store.Ingress) Claim {
	if len(controller.Namespaces) > 0 && !slices.Contains(controller.Namespaces, o.Key.Namespace) {
		return Claim{Why: fmt.Sprintf("controller %s serves other namespaces only", controller.Name), Mend: "add the namespace to namespaces of the controller"}
	}
	name, field := c.className(o, in)
	claim := Claim{Ours: true, Why: "every class is served"}
	if !controller.Any && (!controller.AnyFile || o.File == "") {
		claim = c.claimClass(controller, name)
	}
	claim.Field = field
	switch {
	case claim.Problem != nil:
		claim.Problem.Origin = model.Origin{Key: o.Key, Field: field}
	case claim.Ours && in.HasClass && in.Class != name && field != "spec.ingressClassName":
		claim.Problem = &model.Problem{
			Origin: model.Origin{Key: o.Key, Field: "spec.ingressClassName"}, Reason: "TwoClasses", Severity: model.Warning,
			Message: fmt.Sprintf("the class is %q by the annotation %s and %q by this field; the annotation counts", clip(name), store.ClassAnnotation, clip(in.Class)),
			Mend:    "remove the annotation",
		}
	}
	return claim
}

func (c *Classes) claimClass(controller *model.IngressController, name string) Claim {
	names := controller.Classes
	if len(names) == 0 && controller.IngressClass != "" {
		names = []string{controller.IngressClass}
	}
	class := c.byName[name]
	switch {
	case name == "" && controller.WatchIngressWithoutClass:
		return Claim{Ours: true, Why: "Ingresses without a class are served"}
	case name == "":
		return Claim{Why: "it names no class", Mend: "set spec.ingressClassName to " + cmp.Or(first(names), "a class of this controller")}
	case len(names) == 0 && class == nil:
		return Claim{Why: fmt.Sprintf("there is no IngressClass %q", clip(name)), Mend: "create it, with spec.controller " + model.ControllerName}
	case len(names) == 0 && class.Controller != model.ControllerName:
		return Claim{Why: fmt.Sprintf("IngressClass %q is of the controller %q", clip(name), clip(class.Controller)), Mend: "set spec.ingressClassName to a class of " + model.ControllerName}
	case len(names) == 0:
		return Claim{Ours: true, Why: fmt.Sprintf("IngressClass %q is of this controller", clip(name))}
	case !slices.Contains(names, name):
		return Claim{Why: fmt.Sprintf("its class is %q", clip(name)), Mend: "set spec.ingressClassName to " + first(names)}
	case class == nil || class.Controller == model.ControllerName || class.Controller == model.LegacyControllerName:
		return Claim{Ours: true, Why: fmt.Sprintf("its class is %q", clip(name))}
	}
	claim := Claim{
		Why:  fmt.Sprintf("IngressClass %q is of another controller, %q", clip(name), clip(class.Controller)),
		Mend: "name a class of this controller, or create the IngressClass anew with spec.controller " + model.ControllerName,
	}
	claim.Problem = &model.Problem{Reason: "ForeignClass", Message: claim.Why + "; the Ingress is not served here", Mend: claim.Mend, Severity: model.Error}
	return claim
}

func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}
