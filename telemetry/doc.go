// Package telemetry counts what the data plane and the control plane do, and writes the access log. Nothing in it is global;
// every method of its handles is a no-op on a nil receiver, so that a part can run without.
package telemetry
