package ingress

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model/document"
)

// redirectAnnotation asks that plain HTTP is sent to HTTPS, on the hosts of the Ingress that have TLS.
const redirectAnnotation = store.AnnotationPrefix + "ssl-redirect"

func knownAnnotations() []string { return []string{redirectAnnotation} }

// annotations says what the annotations ask for, and what is wrong with them.
func (p *problems) annotations(all map[string]string) (redirect bool) {
	var foreign []string
	for name, value := range all {
		field := "metadata.annotations[" + clip(name) + "]"
		switch {
		case name == store.ClassAnnotation:
		case !strings.HasPrefix(name, store.AnnotationPrefix):
			foreign = append(foreign, name)
		case name != redirectAnnotation:
			p.wrong(field, "UnknownAnnotation", "the annotation is not known", nearestAnnotation(name))
		case value == "true":
			redirect = true
		case value != "false":
			p.wrong(field, "InvalidAnnotation", fmt.Sprintf("%q is neither true nor false; it counts as false", clip(value)), `write "true" or "false"`)
		}
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		p.doubt("metadata.annotations", "ForeignAnnotation", list(clipAll(foreign))+" of another program: without effect in this version", "")
	}
	return redirect
}

func clipAll(words []string) []string {
	for i := range words {
		words[i] = clip(words[i])
	}
	return words
}

func nearestAnnotation(name string) string {
	short := func(name string) string { return strings.TrimPrefix(name, store.AnnotationPrefix) }
	var known []string
	for _, k := range knownAnnotations() {
		known = append(known, short(k))
	}
	if nearest := document.Nearest(short(name), known); nearest != "" {
		return fmt.Sprintf("did you mean %q?", store.AnnotationPrefix+nearest)
	}
	return "known are " + strings.Join(knownAnnotations(), ", ")
}
