// Package ingress turns Ingress objects, with the Services, EndpointSlices, Secrets and IngressClasses that they name, into parts
// of a Config: for each controller one rule set with a rule for each host and one TLS set, and for each Service port one pipeline
// and one upstream. It does so incrementally: what does not depend on a change keeps its pointer.
package ingress
