// Package model is the waist of Sluice: what the control plane says and the data plane does. A Config is made of the objects
// that users write (HTTPServer, Pipeline), of the upstreams and certificates they name, and of nothing else; it is typed,
// never text that is parsed again, and never written after it was handed over.
package model
