package model

// IngressController serves Ingress objects on servers of its own.
type IngressController struct {
	Meta `json:",inline"`

	Namespaces   []string    `json:"namespaces,omitempty"`   // empty: all; also filters manifests
	IngressClass string      `json:"ingressClass,omitempty"` // default easegress when written by hand
	HTTPServer   *HTTPServer `json:"httpServer"`
	HTTPSServer  *HTTPServer `json:"httpsServer,omitempty"` // a second port with TLS, beside an httpServer without
	KubeConfig   string      `json:"kubeConfig,omitempty"`
	MasterURL    string      `json:"masterURL,omitempty"`

	Manifests                []string `json:"manifests,omitempty"`
	PublishService           string   `json:"publishService,omitempty"`     // namespace/name
	DefaultBackend           string   `json:"defaultBackend,omitempty"`     // namespace/name:port
	DefaultCertificate       string   `json:"defaultCertificate,omitempty"` // namespace/name of a Secret
	WatchIngressWithoutClass bool     `json:"watchIngressWithoutClass,omitempty"`
	AllowExternalNames       bool     `json:"allowExternalNameServices,omitempty"` // every controller of a process must

	Classes []string `json:"-"` // of --ingress-class; IngressClass is the first
	Any     bool     `json:"-"` // every Ingress is ours, whatever its class: manifests without --ingress-class
	AnyFile bool     `json:"-"` // every Ingress of a file is; those of an API server by their class
	Origin  Origin   `json:"-"`
}

// ControllerName is what IngressClass.spec.controller must be to be ours; LegacyControllerName is accepted for named classes.
const (
	ControllerName       = "sluice.dev/ingress-controller"
	LegacyControllerName = "megaease.com/ingress-controller"
)
