// Package kube is the source that reads a Kubernetes API server and watches it, and writes back what is to be said about its objects:
// addresses of Ingresses and Events. Of each object it keeps only what the store keeps. A kind that may not be read, or that the
// server does not have, costs what depends on it, is said once and asked for ever more seldom; a server that is away costs nothing
// but fresh changes.
package kube
