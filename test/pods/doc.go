// Package pods stands in for the kubelet in tests: it turns Pods of a real API server into local processes. Each Pod has a network
// namespace with an address on a bridge, each container a mount namespace over the machine's files, with environment, volumes,
// probes, graceful termination and a log file as Kubernetes has them. An image is a name that the test maps to a program.
//
// It does not do: resources and scheduling (every Pod goes to the one node at once), logs and exec through the API server, grpc
// probes, persistent volumes, DNS, a /proc of the container's own processes.
package pods
