package store

// Ingress is what is used of a networking.k8s.io/v1 Ingress.
type Ingress struct {
	Created     int64 // seconds since 1970; 0: missing, which counts as youngest
	Class       string
	HasClass    bool              // spec.ingressClassName is there
	Annotations map[string]string // those that may mean something; of foreign ones only the name
	Default     *Backend
	Rules       []Rule
	TLS         []TLS
}

// Rule is one entry of spec.rules.
type Rule struct {
	Host    string
	HasHTTP bool
	Paths   []Path
}

// Path is one entry of spec.rules[].http.paths.
type Path struct {
	Path    string
	Type    string // "" when it is missing
	Backend Backend
}

// Backend is where a path leads: to a Service, to another resource, or, when it is broken, to neither.
type Backend struct {
	HasService bool
	Service    string
	PortName   string
	Port       int32
	Resource   *Resource
}

// Resource names an object of any kind in the namespace of its Ingress.
type Resource struct {
	Group, Kind, Name string
}

// TLS is one entry of spec.tls.
type TLS struct {
	Hosts  []string
	Secret string // "" when it is missing
}

// IngressClass is what is used of a networking.k8s.io/v1 IngressClass.
type IngressClass struct {
	Created    int64 // seconds since 1970; 0: missing
	Controller string
	Default    bool
}

// Service is what is used of a v1 Service.
type Service struct {
	Type         string // "" is ClusterIP
	IPFamily     string // the first of spec.ipFamilies, "" when it is missing
	ExternalName string
	ClusterIPs   []string // of default/kubernetes; others' are not kept
	Ports        []ServicePort
}

// ServicePort is one entry of a Service's spec.ports.
type ServicePort struct {
	Name        string
	Protocol    string // never ""
	AppProtocol string
	Port        int32
	TargetPort  int32  // by default Port; 0 when it is named
	TargetName  string // the name of the target port
}

// EndpointSlice is what is used of a discovery.k8s.io/v1 EndpointSlice.
type EndpointSlice struct {
	Service     string // of the label kubernetes.io/service-name
	AddressType string
	Ports       []EndpointPort
	Endpoints   []Endpoint
}

// EndpointPort is one entry of a slice's ports.
type EndpointPort struct {
	Name     string
	Protocol string // never ""
	Port     int32
	HasPort  bool
}

// Endpoint is one entry of a slice's endpoints with its conditions filled in.
type Endpoint struct {
	Address     string // the first one; "" when there is none
	Pod         string // that it is, "" when that is not known
	Ready       bool
	Serving     bool
	Terminating bool
}

// Secret is what is used of a v1 Secret. A key that is missing is nil, one without content is empty.
type Secret struct {
	Type  string // "" is Opaque
	Chain []byte // tls.crt
	Key   []byte // tls.key
	CA    []byte // ca.crt
}
