package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Settings of a control plane.
type Settings struct {
	Dir      string    // keys, data, logs; made when it is missing
	Progress io.Writer // says what takes long
	Audit    bool      // write every request, with who sent it, to Dir/audit.log
	Bare     bool      // no controllers: nothing makes Pods, EndpointSlices and service accounts
}

// Cluster is a running control plane. Its processes end with the namespace that they run in.
type Cluster struct {
	Settings
	Kubeconfig string // file; of an administrator
	Server     string // the API server's URL, for Pods and for what runs beside them
	Authority  *Authority

	binaries   Binaries
	etcd       *Process
	apiserver  *Process
	controller *Process
	client     *kubernetes.Clientset
	objects    *applier
}

// AdminToken is the bearer token of an administrator.
const AdminToken = "test-administrator"

const (
	etcdURL = "http://127.0.0.1:2379"
	port    = "6443"
)

// controllers are the parts of the controller manager that the tests need.
const controllers = "deployment-controller,replicaset-controller,endpointslice-controller,endpoints-controller,namespace-controller," +
	"garbage-collector-controller,serviceaccount-controller,root-ca-certificate-publisher-controller"

// Start builds what is missing, starts the control plane and waits until it serves. It must run inside Enter's namespace, where
// there is room for one.
func Start(ctx context.Context, s Settings) (*Cluster, error) {
	if s.Progress == nil {
		s.Progress = io.Discard
	}
	binaries, err := Build(ctx, s.Progress)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	c := &Cluster{Settings: s, Server: "https://" + NodeAddress + ":" + port, binaries: binaries}
	begin := time.Now()
	if err := c.writeFiles(); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	if err := c.startEtcd(); err != nil {
		return nil, err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	if !s.Bare {
		if err := c.waitForAccount(ctx, "default"); err != nil {
			c.Stop()
			return nil, err
		}
	}
	fmt.Fprintf(s.Progress, "control plane ready in %s\n", time.Since(begin).Round(100*time.Millisecond))
	return c, nil
}

func (c *Cluster) file(name string) string { return filepath.Join(c.Dir, name) }

// writeFiles writes the keys, certificates and settings that the programs read.
func (c *Cluster) writeFiles() (err error) {
	if c.Authority, err = NewAuthority("test cluster"); err != nil {
		return err
	}
	certificate, key, err := c.Authority.Issue("kubernetes.default.svc", "kubernetes.default", "kubernetes", "localhost", "127.0.0.1", NodeAddress, "10.201.0.1")
	if err != nil {
		return err
	}
	accounts, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(accounts)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(accounts.Public())
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"ca.crt":     c.Authority.PEM,
		"server.crt": certificate,
		"server.key": key,
		"sa.key":     pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		"sa.pub":     pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"tokens.csv": []byte(AdminToken + ",admin,admin,system:masters\n"),
		"audit.yaml": []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"),
	} {
		if err := os.WriteFile(c.file(name), data, 0o600); err != nil {
			return err
		}
	}
	c.Kubeconfig, err = c.WriteKubeconfig("admin", c.Server, AdminToken)
	return err
}

func (c *Cluster) startEtcd() (err error) {
	c.etcd, err = StartProcess(c.Dir, "etcd", c.binaries.Etcd, "--data-dir", c.file("etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380", "--initial-cluster=default=http://127.0.0.1:2380")
	return err
}

// StartAPIServer starts the API server and the controllers, also again after StopAPIServer, and waits until the API server is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) (err error) {
	args := []string{
		"--etcd-servers=" + etcdURL, "--secure-port=" + port, "--bind-address=0.0.0.0", "--advertise-address=" + NodeAddress,
		"--tls-cert-file", c.file("server.crt"), "--tls-private-key-file", c.file("server.key"), "--cert-dir", c.Dir,
		"--service-cluster-ip-range=" + ServiceNetwork, "--authorization-mode=RBAC", "--token-auth-file", c.file("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file", c.file("sa.pub"), "--service-account-signing-key-file", c.file("sa.key"),
		"--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000", "--storage-media-type=application/vnd.kubernetes.protobuf", "--v=1",
	}
	if c.Audit {
		args = append(args, "--audit-policy-file", c.file("audit.yaml"), "--audit-log-path", c.file("audit.log"), "--audit-log-mode=blocking")
	}
	if c.apiserver, err = StartProcess(c.Dir, "kube-apiserver", c.binaries.APIServer, args...); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err = Wait(limit, "kube-apiserver to be ready", func(ctx context.Context) (bool, error) {
		select {
		case <-c.apiserver.Done():
			return false, fmt.Errorf("kube-apiserver ended")
		default:
			return c.ready(ctx), nil
		}
	})
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, c.apiserver.Tail())
	}
	if c.Bare {
		return nil
	}
	c.controller, err = StartProcess(c.Dir, "kube-controller-manager", c.binaries.ControllerManager, "--kubeconfig", c.Kubeconfig, "--leader-elect=false",
		"--service-account-private-key-file", c.file("sa.key"), "--root-ca-file", c.file("ca.crt"), "--controllers", controllers,
		"--concurrent-deployment-syncs=10", "--concurrent-replicaset-syncs=10", "--kube-api-qps=500", "--kube-api-burst=500", "--secure-port=0")
	return err
}

func (c *Cluster) ready(ctx context.Context) bool {
	status := 0
	c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Timeout(time.Second).Do(ctx).StatusCode(&status)
	return status == http.StatusOK
}

// StopAPIServer takes the API server and the controllers away; etcd keeps what it had.
func (c *Cluster) StopAPIServer() {
	c.controller.Stop(time.Second)
	c.apiserver.Stop(2 * time.Second)
}

// Stop ends the control plane.
func (c *Cluster) Stop() {
	for _, p := range []*Process{c.controller, c.apiserver, c.etcd} {
		p.Stop(2 * time.Second)
	}
}

// Client is an administrator's, without a rate limit.
func (c *Cluster) Client() *kubernetes.Clientset { return c.client }

// Config is an administrator's, without a rate limit; a copy.
func (c *Cluster) Config() *rest.Config {
	return &rest.Config{Host: c.Server, BearerToken: AdminToken, TLSClientConfig: rest.TLSClientConfig{CAData: c.Authority.PEM}, QPS: -1}
}
