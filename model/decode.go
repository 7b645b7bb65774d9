package model

import (
	"fmt"
	"slices"
	"strings"

	"sluice.dev/sluice/model/document"
)

// The kinds of object that Decode knows.
const (
	KindHTTPServer        = "HTTPServer"
	KindPipeline          = "Pipeline"
	KindIngressController = "IngressController"
)

// Kinds returns the kinds that Decode knows.
func Kinds() []string { return []string{KindHTTPServer, KindPipeline, KindIngressController} }

// laterKinds are kinds of the same family that this version has not.
func laterKinds() []string {
	return []string{
		"AIGatewayController", "AutoCertManager", "ConsulServiceRegistry", "EaseMonitorMetrics", "EtcdServiceRegistry", "EurekaServiceRegistry",
		"FaaSController", "GRPCServer", "GatewayController", "GlobalFilter", "MQTTProxy", "MeshController", "NacosServiceRegistry",
		"RawConfigTrafficController", "ServiceRegistry", "StatusSyncController", "TrafficController", "WAFController", "ZookeeperServiceRegistry",
	}
}

// Decode makes the object of a document, its defaults filled in and its origins set: *HTTPServer, *Pipeline or
// *IngressController, nil when it is none of these. The problems are those of reading; Validate finds the others. With one of severity
// Error the object is not what its author meant and must not be served.
func Decode(doc *document.Document) (any, []Problem) {
	d := &decoding{key: Key{Kind: doc.Kind, Name: doc.Name}}
	switch doc.Kind {
	case KindHTTPServer:
		s := new(HTTPServer)
		d.fields(doc.Decode(s))
		s.SetDefaults()
		s.setOrigin(d.key)
		d.meta(&s.Meta)
		return s, d.problems
	case KindPipeline:
		p := new(Pipeline)
		d.fields(doc.Decode(p))
		p.setDefaults()
		p.Origin = Origin{Key: d.key}
		d.meta(&p.Meta)
		return p, d.problems
	case KindIngressController:
		c := new(IngressController)
		d.fields(doc.Decode(c))
		c.SetDefaults()
		c.setOrigin(d.key)
		d.meta(&c.Meta)
		return c, d.problems
	}
	d.unknownKind(doc.Kind)
	return nil, d.problems
}

// decoding gathers the problems of one document.
type decoding struct {
	key      Key
	problems []Problem
}

func (d *decoding) add(severity Severity, reason, field, message, mend string) {
	d.problems = append(d.problems, Problem{Origin{d.key, field}, reason, message, mend, severity})
}

func (d *decoding) unknownKind(kind string) {
	switch {
	case kind == "":
		d.add(Error, "KindMissing", "", "the document has no kind", "begin it with kind: "+strings.Join(Kinds(), ", kind: "))
	case slices.Contains(laterKinds(), kind):
		d.add(Warning, "NotInThisVersion", "kind", "not in this version: kind "+kind, "remove the object; nothing comes of it")
	default:
		d.add(Error, "UnknownKind", "kind", fmt.Sprintf("kind %q is not known", kind), didYouMean(kind, Kinds()))
	}
}

// fields takes the mistakes of reading over. Fields that a later version has are told from those that nobody knows.
func (d *decoding) fields(errs []document.FieldError) {
	for _, e := range errs {
		if e.Reason != document.UnknownField {
			d.add(Error, e.Reason, e.Path, e.Message, e.Mend)
			continue
		}
		what, severity, known := laterField(e.In, e.Field)
		switch {
		case !known:
			d.add(Error, e.Reason, e.Path, e.Message, e.Mend)
		case e.Empty:
			// Not asked for.
		case severity == Error:
			d.add(Error, "NotInThisVersion", e.Path, "not in this version: "+what, "remove the field, if it can be done without")
		default:
			d.add(Warning, "NotInThisVersion", e.Path, "not in this version: "+what, "the field is ignored")
		}
	}
}

// meta checks what only people write: names of generated objects are longer.
func (d *decoding) meta(m *Meta) {
	switch {
	case m.Name == "":
		d.add(Error, "NameMissing", "name", "the object has no name", "give it one, unique among those of its kind")
	case len(m.Name) > 253 || strings.Trim(m.Name, nameCharacters) != "":
		d.add(Error, "InvalidName", "name", fmt.Sprintf("%q is no name", m.Name), "use letters, digits, -, _, . and ~, at most 253")
	}
	if m.Version != DefaultVersion && m.Version != "v2" {
		d.add(Warning, "UnknownVersion", "version", fmt.Sprintf("version %q is not known", m.Version), "it is read as "+DefaultVersion)
	}
}

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~"

// didYouMean says which of the names was meant, or which there are.
func didYouMean(got string, names []string) string {
	if nearest := document.Nearest(got, names); nearest != "" {
		return fmt.Sprintf("did you mean %q?", nearest)
	}
	return "known are " + strings.Join(names, ", ")
}
