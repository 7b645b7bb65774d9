package kube

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Access is how to reach an API server. The zero value is the one of the Pod that the program runs in.
type Access struct {
	Kubeconfig string // file
	Context    string // of the file; "" is its current one
	MasterURL  string // in place of the server that the file names, or without a file
	Agent      string // how the program calls itself
}

// accountFolder is where Kubernetes puts what a Pod needs to reach the API server.
const accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"

// Server is an API server that can be reached.
type Server struct {
	config    *rest.Config
	namespace string // that is ours there
}

// Connect finds out how to reach the API server, and which namespace is ours there: that of the Pod, or of the file's context.
// Nothing is sent yet.
func (a Access) Connect() (*Server, error) {
	config, namespace, err := a.load()
	if err != nil {
		return nil, err
	}
	config.UserAgent = cmp.Or(a.Agent, rest.DefaultKubernetesUserAgent())
	config.Timeout = 0 // watches have none
	if config.Dial == nil {
		// A new try while the network is away must end soon, to be there when it is back; a connection whose other side is gone
		// without a word must be noticed.
		dialer := &net.Dialer{Timeout: 3 * time.Second, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3}}
		config.Dial = dialer.DialContext
	}
	return &Server{config, namespace}, nil
}

// Address is where the server is reached: host and port.
func (s *Server) Address() string {
	u, _, err := rest.DefaultServerUrlFor(s.config)
	if err != nil {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(port, "443"))
}

func (a Access) load() (*rest.Config, string, error) {
	switch {
	case a.Kubeconfig == "" && a.MasterURL == "":
		return inPod()
	case a.Kubeconfig == "":
		config, err := clientcmd.BuildConfigFromFlags(a.MasterURL, "")
		if err != nil {
			return nil, "", fmt.Errorf("reach the API server at %s: %w", a.MasterURL, err)
		}
		return config, ownNamespace(), nil
	}
	text, err := os.ReadFile(a.Kubeconfig)
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	if _, err := clientcmd.Load(text); err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig %s: it is no kubeconfig (apiVersion: v1, kind: Config): %w", a.Kubeconfig, err)
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: a.Context}
	overrides.ClusterInfo.Server = a.MasterURL
	deferred := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: a.Kubeconfig}, overrides)
	raw, err := deferred.RawConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig %s: %w", a.Kubeconfig, err)
	}
	name := cmp.Or(a.Context, raw.CurrentContext)
	switch at := raw.Contexts[name]; {
	case len(raw.Clusters) == 0:
		return nil, "", fmt.Errorf("read the kubeconfig %s: it names no cluster", a.Kubeconfig)
	case name == "":
		return nil, "", fmt.Errorf("read the kubeconfig %s: it has no current-context; name one (--kube-context); it has %s", a.Kubeconfig, list(slices.Collect(maps.Keys(raw.Contexts))))
	case at == nil:
		return nil, "", fmt.Errorf("read the kubeconfig %s: it has no context %q; it has %s", a.Kubeconfig, name, list(slices.Collect(maps.Keys(raw.Contexts))))
	case raw.Clusters[at.Cluster] == nil && a.MasterURL == "":
		return nil, "", fmt.Errorf("read the kubeconfig %s: context %q is of cluster %q, which it has not; it has %s", a.Kubeconfig, name, at.Cluster, list(slices.Collect(maps.Keys(raw.Clusters))))
	case at.AuthInfo != "" && raw.AuthInfos[at.AuthInfo] == nil:
		return nil, "", fmt.Errorf("read the kubeconfig %s: context %q is of user %q, which it has not; it has %s", a.Kubeconfig, name, at.AuthInfo, list(slices.Collect(maps.Keys(raw.AuthInfos))))
	}
	config, err := deferred.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig %s: %w", a.Kubeconfig, err)
	}
	namespace, _, err := deferred.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig %s: %w", a.Kubeconfig, err)
	}
	return config, namespace, nil
}

func inPod() (*rest.Config, string, error) {
	config, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, "", errors.New("reach the API server of the cluster that this runs in: it runs in none, since KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set; name a kubeconfig file")
	case err != nil:
		return nil, "", fmt.Errorf("read what the Pod needs to reach its API server (is automountServiceAccountToken off?): %w", err)
	}
	return config, ownNamespace(), nil
}

// ownNamespace is that of the Pod.
func ownNamespace() string {
	if name := os.Getenv("POD_NAMESPACE"); name != "" {
		return name
	}
	text, _ := os.ReadFile(accountFolder + "/namespace")
	return cmp.Or(strings.TrimSpace(string(text)), "default")
}
