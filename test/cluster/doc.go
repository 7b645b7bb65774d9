// Package cluster runs a real Kubernetes control plane for tests: etcd, kube-apiserver and kube-controller-manager built from
// their modules, in a network namespace of the test's own, where private addresses belong to nobody else.
package cluster
