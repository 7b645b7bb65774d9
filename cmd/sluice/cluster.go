package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"sluice.dev/sluice/control/source/kube"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate/ingress"
	"sluice.dev/sluice/model"
)

const sourceCluster = "kubernetes"

// clusterOptions are the settings about a Kubernetes API server.
type clusterOptions struct {
	kubeconfig string
	context    string
	namespaces []string
	service    string
	addresses  []string
}

// define adds the flags that say what is read; check and explain have them too.
func (o *clusterOptions) define(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that names a Kubernetes API server to read from")
	f.StringVar(&o.context, "kube-context", "", "of the kubeconfig file (the current one)")
	f.StringSliceVar(&o.namespaces, "watch-namespace", nil, "objects of this namespace only; repeatable (all)")
}

// definePublish adds the flags that say what is written back.
func (o *clusterOptions) definePublish(f *pflag.FlagSet) {
	f.StringVar(&o.service, "publish-service", "", "NAMESPACE/NAME whose addresses become Ingress status")
	f.StringSliceVar(&o.addresses, "publish-status-address", nil, "IP or host name for Ingress status; repeatable")
}

func clusterSettings() []string {
	return []string{"kubeconfig", "kube-context", "watch-namespace", "publish-service", "publish-status-address"}
}

func checkNamespaces(names []string) error {
	for _, name := range names {
		if !store.ValidName(name) || strings.Contains(name, ".") {
			return fmt.Errorf("%q is no namespace; write shop, or several as shop,blog", name)
		}
	}
	return nil
}

func checkPublished(addresses []string) error {
	for _, a := range addresses {
		if err := kube.CheckAddress(a); err != nil {
			return err
		}
	}
	return nil
}

// clusterPlan is an API server to read from, and for whom.
type clusterPlan struct {
	access      kube.Access
	namespaces  []string
	controllers []*model.IngressController
	publish     []kube.Publish
	who         string // asks for it, when no flag does
	server      *kube.Server
}

// readsCluster reports whether objects come from an API server.
func (o *options) readsCluster(controllers []*model.IngressController, paths []string) bool {
	if o.cluster.kubeconfig != "" || len(paths) == 0 && o.pod {
		return true
	}
	noFiles := len(controllers) > 0 && len(o.manifests) == 0
	for _, c := range controllers {
		if c.KubeConfig != "" || c.MasterURL != "" {
			return true
		}
		noFiles = noFiles && len(c.Manifests) == 0
	}
	return noFiles
}

// planCluster says how the controllers read from an API server: all from one.
func (o *options) planCluster(controllers []*model.IngressController) (*clusterPlan, error) {
	p := &clusterPlan{controllers: controllers, namespaces: o.cluster.namespaces}
	p.access = kube.Access{Kubeconfig: o.cluster.kubeconfig, Context: o.cluster.context, Agent: "sluice/" + version()}
	for _, c := range controllers {
		file := cmp.Or(o.cluster.kubeconfig, c.KubeConfig)
		if at := &p.access; at.Kubeconfig != "" && file != "" && at.Kubeconfig != file || at.MasterURL != "" && c.MasterURL != "" && at.MasterURL != c.MasterURL {
			return nil, wrong("IngressController %s reads from another API server than the one before it, which one process cannot; start one for each", c.Name)
		}
		p.access.Kubeconfig, p.access.MasterURL = cmp.Or(p.access.Kubeconfig, file), cmp.Or(p.access.MasterURL, c.MasterURL)
		p.publish = append(p.publish, o.publishOf(c))
	}
	if len(p.namespaces) == 0 && !slices.ContainsFunc(controllers, func(c *model.IngressController) bool { return len(c.Namespaces) == 0 }) {
		for _, c := range controllers {
			p.namespaces = append(p.namespaces, c.Namespaces...)
		}
	}
	return p, nil
}

func (o *options) publishOf(c *model.IngressController) kube.Publish {
	made := kube.Publish{Controller: c.Name, Classes: c.Classes, Service: cmp.Or(o.cluster.service, c.PublishService), Addresses: o.cluster.addresses}
	if len(made.Classes) == 0 && c.IngressClass != "" {
		made.Classes = []string{c.IngressClass}
	}
	return made
}

// source makes the source that reads the API server into s.
func (p *clusterPlan) source(s *store.Store, log *slog.Logger) (*kube.Source, error) {
	server, err := p.access.Connect()
	if err != nil {
		return nil, wrong("%s%w", p.who, err)
	}
	p.server = server
	settings := kube.Settings{Name: sourceCluster, Server: server, Namespaces: p.namespaces, Store: s, Log: log, Owns: p.owns}
	for _, c := range p.controllers {
		if space, name, found := strings.Cut(c.DefaultCertificate, "/"); found {
			settings.Secrets = append(settings.Secrets, model.Key{Namespace: space, Name: name})
		}
	}
	source, err := kube.New(settings)
	if err != nil {
		return nil, wrong("%w", err)
	}
	return source, nil
}

// writer makes the writer of what is to be said about what the source reads, while it is served.
func (p *clusterPlan) writer(source *kube.Source, serving func(controller string) bool, log *slog.Logger) (*kube.Writer, error) {
	w, err := kube.NewWriter(kube.WriterSettings{Source: source, Identity: identity(), Publish: p.publish, Log: log, Serving: serving})
	if err != nil {
		return nil, wrong("%w", err)
	}
	return w, nil
}

// apiServers is where the API server is, as far as that is known before anything is read from it. Requests must not be sent there.
func (p *clusterPlan) apiServers() []netip.AddrPort {
	if p.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // a start does not wait for DNS
	defer cancel()
	host, text, err := net.SplitHostPort(p.server.Address())
	port, portErr := strconv.ParseUint(text, 10, 16)
	if err != nil || portErr != nil {
		return nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil { // it says itself where it is, when it has been read
		return nil
	}
	var all []netip.AddrPort
	for _, addr := range addrs {
		all = append(all, netip.AddrPortFrom(addr, uint16(port)))
	}
	return all
}

// owns says which Ingresses the controllers serve.
func (p *clusterPlan) owns(view store.View) func(*store.Object, *store.Ingress) bool {
	classes := ingress.NewClasses(view)
	return func(o *store.Object, in *store.Ingress) bool {
		return slices.ContainsFunc(p.controllers, func(c *model.IngressController) bool { return classes.Claim(c, o, in).Ours })
	}
}

// identity tells this process from its replicas.
func identity() string {
	host, _ := os.Hostname()
	random := make([]byte, 4)
	_, _ = rand.Read(random) // it never fails
	return cmp.Or(os.Getenv("POD_NAME"), host, "sluice") + "_" + hex.EncodeToString(random)
}

// load reads files and, when one is named, an API server.
func (o *options) load(ctx context.Context, paths []string, s streams) (*loaded, error) {
	l, err := load(paths)
	if err != nil {
		return nil, err
	}
	var controllers []*model.IngressController
	for _, c := range store.List[*model.IngressController](l.view, model.KindIngressController) {
		controllers = append(controllers, c)
	}
	if err := o.checkBeside(controllers); err != nil {
		return nil, err
	}
	if o.cluster.kubeconfig != "" {
		err = l.readCluster(ctx, o, s)
	}
	return l, err
}

// places says where the objects were read.
func (l *loaded) places() string {
	text := counted(l.files, "file")
	switch {
	case l.cluster && l.files == 0:
		return "the cluster"
	case l.cluster:
		return text + " and the cluster"
	}
	return text
}

// waitFor waits until a source has been read, or cannot be.
func waitFor(source *kube.Source, ended <-chan struct{}) {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for !source.Refused() {
		select {
		case <-source.Synced():
			return
		case <-ended:
			return
		case <-look.C:
		}
	}
}

// readWithin is how long check and explain wait for an API server.
const readWithin = 30 * time.Second

// readCluster adds what an API server has, as it is now. What may not be read is said.
func (l *loaded) readCluster(ctx context.Context, o *options, s streams) error {
	var controllers []*model.IngressController
	for _, c := range store.List[*model.IngressController](l.view, model.KindIngressController) {
		controllers = append(controllers, c)
	}
	if len(controllers) == 0 {
		controllers = implicit(o, true)
	}
	p, err := o.planCluster(controllers)
	if err != nil {
		return err
	}
	source, err := p.source(l.store, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		source.Run(ctx)
	}()
	l.apiServers = p.apiServers()
	waitFor(source, ended)
	waiting, degraded := source.Ready()
	cancel()
	<-ended
	if l.cluster = true; len(waiting) > 0 {
		return wrong("read the API server: %s", strings.Join(waiting, "\n"))
	}
	for _, text := range degraded {
		fmt.Fprintln(s.err, "sluice: "+text)
	}
	l.view, _ = l.store.Take()
	for object := range l.view.All() {
		if object.Source == sourceCluster {
			l.objects++
			l.problems = append(l.problems, l.view.Problems(object.Key)...)
		}
	}
	return nil
}
