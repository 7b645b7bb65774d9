package model

import (
	"fmt"
	"net/url"
	"strings"
)

// Validate returns what is wrong with a controller, by field.
func (i *IngressController) Validate() []Problem {
	c := &check{origin: i.Origin}
	c.meta(&i.Meta)
	for n, namespace := range i.Namespaces {
		if !isLabel(namespace) {
			c.wrong(at("namespaces").index(n), "InvalidNamespace", fmt.Sprintf("%q is no namespace", clip(namespace)), "use lower-case letters, digits and -; no namespaces at all means every one")
		}
	}
	if i.IngressClass != "" && !isSubdomain(i.IngressClass) {
		c.wrong("ingressClass", "InvalidClass", fmt.Sprintf("%q is no name of a class", clip(i.IngressClass)), "use lower-case letters, digits, - and .")
	}
	if i.MasterURL != "" {
		if u, err := url.Parse(i.MasterURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			c.wrong("masterURL", "InvalidURL", fmt.Sprintf("%q is no URL", clip(i.MasterURL)), "write it as https://10.0.0.1:6443")
		}
	}
	for n, path := range i.Manifests {
		if path == "" {
			c.wrong(at("manifests").index(n), "EmptyItem", "an empty path", "remove it, or name a file or folder")
		}
	}
	c.object("publishService", i.PublishService)
	c.object("defaultCertificate", i.DefaultCertificate)
	if i.DefaultBackend != "" {
		if _, _, _, ok := ParseService(i.DefaultBackend); !ok {
			c.wrong("defaultBackend", "InvalidService", fmt.Sprintf("%q names no Service", clip(i.DefaultBackend)), "write namespace/name:port")
		}
	}
	c.controllerServers(i)
	return c.problems
}

// object checks namespace/name.
func (c *check) object(field at, text string) {
	if text == "" {
		return
	}
	if namespace, name, found := strings.Cut(text, "/"); !found || !isLabel(namespace) || !isSubdomain(name) {
		c.wrong(field, "InvalidReference", fmt.Sprintf("%q names no object", clip(text)), "write namespace/name")
	}
}

func (c *check) controllerServers(i *IngressController) {
	if i.HTTPServer == nil {
		c.wrong("httpServer", "ServerMissing", "the controller has no httpServer", "give it one with a port: httpServer: {port: 8080}")
	} else {
		c.controllerServer("httpServer", i.HTTPServer)
	}
	if i.HTTPSServer == nil {
		return
	}
	c.controllerServer("httpsServer", i.HTTPSServer)
	if i.HTTPServer == nil {
		return
	}
	if i.HTTPServer.HTTPS {
		c.wrong("httpServer.https", "InvalidServers", "both servers have TLS", "remove httpsServer, or set https of httpServer to false")
	}
	if a, b := i.HTTPServer, i.HTTPSServer; a.Port == b.Port && (a.Address == b.Address || a.Address == "" || b.Address == "") && a.Port != 0 {
		c.wrong("httpsServer.port", "PortTaken", fmt.Sprintf("httpServer has the port %d too", b.Port), "give one of them another port")
	}
}

// controllerServer checks a server whose rules and certificates come from other objects.
func (c *check) controllerServer(field at, s *HTTPServer) {
	inner := &check{origin: c.origin}
	inner.origin.Field = string(field)
	inner.server(s)
	if len(s.Rules) > 0 {
		inner.wrong("rules", "Unused", "the rules of a controller's server come from Ingress objects", "move these into an HTTPServer object")
	}
	if s.Fallback != "" {
		inner.wrong("fallback", "Unused", "what answers where no Ingress does is defaultBackend", "remove it, and set defaultBackend to namespace/name:port")
	}
	if s.RouterKind != "" && s.RouterKind != Ordered && s.RouterKind != HostFirst {
		inner.doubt("routerKind", "Unused", "rules from Ingress objects are always chosen by host first", "remove it")
	}
	switch {
	case s.CACertBase64 != "":
		inner.wrong("caCertBase64", "NotInThisVersion", "not in this version: client certificates on a controller's server", "remove it; an HTTPServer object can demand them")
	case s.CertBase64 != "" || s.KeyBase64 != "" || len(s.Certs) > 0 || len(s.Keys) > 0:
		inner.wrong("certBase64", "Unused", "the certificates of a controller's server come from Secrets", "remove them; defaultCertificate names a Secret for all other hosts")
	}
	c.problems = append(c.problems, inner.problems...)
}
