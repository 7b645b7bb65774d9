package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"sluice.dev/sluice/model"
)

// plan is what serve reads, and the controllers that no object stands for.
type plan struct {
	paths    []string
	cluster  *clusterPlan // nil: no API server is read
	implicit []*model.IngressController
}

// newPlan finds out what there is to serve. It reads the files, but for IngressController objects only.
func newPlan(o *options) (*plan, error) {
	p := &plan{paths: slices.Concat(o.initialFiles, o.manifests)}
	initial, err := controllersIn(o.initialFiles)
	if err != nil {
		return nil, err
	}
	if len(initial.lost) > 0 && !o.check {
		return nil, wrong("%s", strings.Join(initial.lost, "\n"))
	}
	found, err := controllersIn(p.paths)
	if err != nil {
		return nil, err
	}
	for _, c := range found.read {
		p.paths = append(p.paths, c.Manifests...)
	}
	more, err := controllersIn(p.paths[len(o.initialFiles)+len(o.manifests):])
	if err != nil {
		return nil, err
	}
	controllers := append(found.read, more.read...)
	reads := o.readsCluster(controllers, p.paths)
	if len(p.paths) == 0 && !reads {
		return nil, wrong("no source of objects: use --manifests PATH with a file or folder of Ingresses, Services, EndpointSlices and Secrets, or --kubeconfig FILE")
	}
	if err := o.checkBeside(controllers); err != nil {
		return nil, err
	}
	serving := controllers
	if len(controllers) == 0 {
		p.implicit = o.standIn(reads, len(found.lost)+len(more.lost) > 0)
		serving = p.implicit
	}
	if reads {
		p.cluster, err = o.planCluster(serving)
		if err == nil && len(controllers) > 0 && o.cluster.kubeconfig == "" {
			p.cluster.who = fmt.Sprintf("IngressController %s has no manifests: ", controllers[0].Name)
		}
		return p, err
	}
	for _, flag := range clusterSettings() {
		if where := o.given[flag]; where != "" {
			return nil, wrong("%s is set, but nothing is read from a Kubernetes API server; name one by --kubeconfig FILE, or remove it", where)
		}
	}
	return p, nil
}

// checkBeside lets nobody say twice, with a flag and with an object, what a controller does: one of both would count for nothing.
func (o *options) checkBeside(controllers []*model.IngressController) error {
	if len(controllers) == 0 {
		return nil
	}
	for _, beside := range [][2]string{
		{"http", "httpServer says where to listen"},
		{"https", "httpServer says where to listen"},
		{"ingress-class", "ingressClass says what it serves"},
		{"default-backend", "defaultBackend says the same"},
		{"default-ssl-certificate", "defaultCertificate says the same"},
		{externalsFlag, "allowExternalNameServices says the same"},
	} {
		if where := o.given[beside[0]]; where != "" {
			return wrong("%s is set beside IngressController %s, whose %s; remove one of them", where, controllers[0].Name, beside[1])
		}
	}
	return nil
}

// pinned is the setting that says where to listen, whatever objects come; "" is none.
func (o *options) pinned() string { return cmp.Or(o.given["http"], o.given["https"]) }

// standIn is the implicit controller where no IngressController was read. One that is there and cannot be read has none in its place unless
// a flag asks for it: it would serve every class on ports that nobody named.
func (o *options) standIn(cluster, lost bool) []*model.IngressController {
	if lost && o.pinned() == "" {
		return nil
	}
	return implicit(o, cluster)
}

// implicit is the controller that the flags stand for, with or without an API server to read from; none when both addresses are off.
func implicit(o *options, cluster bool) []*model.IngressController {
	if o.http == off && o.https == off {
		return nil
	}
	c := &model.IngressController{
		Meta: model.Meta{Name: "sluice"}, IngressClass: "sluice", Classes: o.classes, Any: len(o.classes) == 0 && !cluster, AnyFile: len(o.classes) == 0,
		DefaultBackend: o.backend, DefaultCertificate: o.certificate, Namespaces: o.cluster.namespaces, AllowExternalNames: o.externals,
	}
	if len(o.classes) > 0 {
		c.IngressClass = o.classes[0]
	}
	c.HTTPServer, c.HTTPSServer = listen(o.http, false), listen(o.https, true)
	if c.HTTPServer == nil {
		c.HTTPServer, c.HTTPSServer = c.HTTPSServer, nil
	}
	if c.SetDefaults(); c.AnyFile && cluster {
		c.IngressClass = "" // every one that names our controller
	}
	c.Origin = model.Origin{Key: model.Key{Kind: model.KindIngressController, Name: c.Name}}
	for _, s := range []*model.HTTPServer{c.HTTPServer, c.HTTPSServer} {
		if s != nil {
			s.Origin = c.Origin
		}
	}
	return []*model.IngressController{c}
}

func listen(address string, tls bool) *model.HTTPServer {
	if address == off {
		return nil
	}
	host, port, _ := splitAddress(address) // validated
	return &model.HTTPServer{Address: strings.Trim(host, "[]"), Port: port, HTTPS: tls}
}
