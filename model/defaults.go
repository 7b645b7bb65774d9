package model

import (
	"fmt"
	"time"
)

// The defaults of objects that people write.
const (
	DefaultVersion          = "easegress.megaease.com/v2"
	DefaultKeepAliveTimeout = Duration(60 * time.Second)
	DefaultMaxConnections   = 10240
	DefaultClientMaxBody    = 4 << 20
	DefaultIngressClass     = "easegress"

	ownerLabel   = "easegress/owner"
	defaultOwner = "user-api"
)

func (m *Meta) setDefaults() {
	if m.Version == "" {
		m.Version = DefaultVersion
	}
	if m.Labels == nil {
		m.Labels = map[string]string{ownerLabel: defaultOwner}
	}
}

func (s *HTTPServer) setConnectionDefaults() {
	if s.KeepAlive == nil {
		keep := true
		s.KeepAlive = &keep
	}
	if s.KeepAliveTimeout == 0 {
		s.KeepAliveTimeout = DefaultKeepAliveTimeout
	}
	if s.MaxConnections == 0 {
		s.MaxConnections = DefaultMaxConnections
	}
	if s.RouterKind == "" {
		s.RouterKind = Ordered
	}
}

// SetDefaults fills in what a hand-written server leaves out; a body limit of 0 becomes 4 MiB.
func (s *HTTPServer) SetDefaults() {
	s.Kind = KindHTTPServer
	s.Meta.setDefaults()
	s.setConnectionDefaults()
	if s.ClientMaxBody == 0 {
		s.ClientMaxBody = DefaultClientMaxBody
	}
}

func (p *Pipeline) setDefaults() {
	p.Kind = KindPipeline
	p.Meta.setDefaults()
}

// SetDefaults fills in what a hand-written controller leaves out. Bodies to its servers are unlimited unless they say
// otherwise; httpsServer always has TLS.
func (c *IngressController) SetDefaults() {
	c.Kind = KindIngressController
	c.Meta.setDefaults()
	if c.IngressClass == "" {
		c.IngressClass = DefaultIngressClass
	}
	if c.HTTPSServer != nil {
		c.HTTPSServer.HTTPS = true
	}
	for _, s := range []*HTTPServer{c.HTTPServer, c.HTTPSServer} {
		if s == nil {
			continue
		}
		s.setConnectionDefaults()
		if s.ClientMaxBody == 0 {
			s.ClientMaxBody = -1
		}
	}
}

// setOrigin says where each part of the server stands.
func (s *HTTPServer) setOrigin(key Key) {
	s.Origin = Origin{Key: key}
	for i, rule := range s.Rules {
		if rule == nil {
			continue
		}
		rule.Origin = Origin{key, fmt.Sprintf("rules[%d]", i)}
		for j, path := range rule.Paths {
			if path != nil {
				path.Origin = Origin{key, fmt.Sprintf("rules[%d].paths[%d]", i, j)}
			}
		}
	}
}

func (c *IngressController) setOrigin(key Key) {
	c.Origin = Origin{Key: key}
	if c.HTTPServer != nil {
		c.HTTPServer.Origin = Origin{key, "httpServer"}
	}
	if c.HTTPSServer != nil {
		c.HTTPSServer.Origin = Origin{key, "httpsServer"}
	}
}
