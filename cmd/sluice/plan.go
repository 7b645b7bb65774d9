package main

import (
	"slices"
	"strings"

	"sluice.dev/sluice/model"
)

// plan is what serve reads, and the controllers that no object stands for.
type plan struct {
	paths    []string
	implicit []*model.IngressController
}

// newPlan finds out what there is to serve. It reads the files, but for IngressController objects only.
func newPlan(o *options) (*plan, error) {
	p := &plan{paths: slices.Concat(o.initialFiles, o.manifests)}
	controllers, err := controllersIn(p.paths)
	if err != nil {
		return nil, err
	}
	for _, c := range controllers {
		p.paths = append(p.paths, c.Manifests...)
	}
	if more, err := controllersIn(p.paths[len(o.initialFiles)+len(o.manifests):]); err != nil {
		return nil, err
	} else if controllers = append(controllers, more...); len(p.paths) == 0 {
		return nil, noSource(o)
	}
	if len(controllers) == 0 {
		p.implicit = implicit(o)
		return p, nil
	}
	for _, flag := range []string{"http", "https"} {
		if where := o.given[flag]; where != "" {
			c := controllers[0]
			return nil, wrong("%s is set beside IngressController %s, whose httpServer says where to listen; remove one of them", where, c.Name)
		}
	}
	if !o.check && len(o.manifests) == 0 && needsCluster(controllers) {
		return nil, wrong("IngressController %s reads from a Kubernetes API server, which this version cannot; give it manifests, or use --manifests PATH", controllers[0].Name)
	}
	return p, nil
}

// needsCluster reports whether none of the controllers has objects from files.
func needsCluster(controllers []*model.IngressController) bool {
	return !slices.ContainsFunc(controllers, func(c *model.IngressController) bool { return len(c.Manifests) > 0 })
}

func noSource(o *options) error {
	if o.pod {
		return wrong("no source of objects: the Kubernetes API server of this Pod cannot be read by this version; use --manifests PATH")
	}
	return wrong("no source of objects: use --manifests PATH with a file or folder of Ingresses, Services, EndpointSlices and Secrets")
}

// implicit is the controller that the flags stand for; none when both addresses are off.
func implicit(o *options) []*model.IngressController {
	if o.http == off && o.https == off {
		return nil
	}
	c := &model.IngressController{
		Meta: model.Meta{Name: "sluice"}, IngressClass: "sluice", Classes: o.classes, Any: len(o.classes) == 0,
		DefaultBackend: o.backend, DefaultCertificate: o.certificate,
	}
	if len(o.classes) > 0 {
		c.IngressClass = o.classes[0]
	}
	c.HTTPServer, c.HTTPSServer = listen(o.http, false), listen(o.https, true)
	if c.HTTPServer == nil {
		c.HTTPServer, c.HTTPSServer = c.HTTPSServer, nil
	}
	c.SetDefaults()
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
