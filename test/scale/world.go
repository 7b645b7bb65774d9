package scale

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	netv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"sluice.dev/sluice/test/cluster"
	"sluice.dev/sluice/test/lane"
)

// Where Sluice listens.
const (
	sluiceAddress = "10.202.0.10"
	httpAddress   = sluiceAddress + ":80"
	httpsAddress  = sluiceAddress + ":443"
	adminAddress  = "127.0.0.1:2381"
)

// world is everything that runs.
type world struct {
	Settings
	*writer
	cluster *cluster.Cluster
	roots   *x509.CertPool
	counts  *counts
	asker   *pool // for probes
	report  *Report
	pairs   []pair          // two for each certificate: the first is there at the start
	changed map[string]bool // which objects are not as they were made
	probe   []any           // objects for probes that are there
	sluice  *cluster.Process
	stops   []func()
	began   time.Time
	empty   usage         // of Sluice while there was nothing
	fresh   bool          // Sluice was started after everything was made, so that only the busy hosts had requests
	quiet   time.Duration // p99 of requests while nothing changes; 0: not measured
}

// say prints what goes on.
func (w *world) say(format string, args ...any) {
	fmt.Fprintf(w.Progress, "%6.1fs  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// open starts the control plane and the backends, and makes namespaces and class. It must run in the namespace of cluster.Enter.
func open(ctx context.Context, s Settings) (w *world, err error) {
	w = &world{Settings: s, counts: &counts{}, asker: &pool{address: httpAddress}, report: &Report{}, changed: map[string]bool{}, began: time.Now()}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := lane.QuietClients(filepath.Join(s.Dir, "client-go.log")); err != nil {
		return w, err
	}
	if s.Sluice == "" {
		w.Sluice = filepath.Join(s.Dir, "sluice")
		if err := cluster.BuildSluice(ctx, w.Sluice); err != nil {
			return w, err
		}
	}
	plane := filepath.Join(s.Dir, "control-plane")
	if err := os.RemoveAll(plane); err != nil { // of an earlier run
		return w, err
	}
	if w.cluster, err = cluster.Start(ctx, cluster.Settings{Dir: plane, Progress: s.Progress, Bare: true}); err != nil {
		return w, err
	}
	w.stops = append(w.stops, w.cluster.Stop)
	if err := yield(s.Nice); err != nil {
		return w, err
	}
	stop, err := startBackends(ctx)
	if err != nil {
		return w, err
	}
	w.stops = append(w.stops, stop)
	config := w.cluster.Config()
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return w, err
	}
	w.writer = &writer{client, s.Writers}
	w.roots = x509.NewCertPool()
	w.roots.AppendCertsFromPEM(w.cluster.Authority.PEM)
	class := &netv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: className}, Spec: netv1.IngressClassSpec{Controller: "sluice.dev/ingress-controller"}}
	if err := w.create(ctx, class); err != nil {
		return w, err
	}
	_, err = createAll(ctx, w.writer, s.Load.Namespaces, func(n int) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Load.namespace(n)}}
	})
	if err != nil {
		return w, err
	}
	return w, w.issue(ctx)
}

// yield makes all other processes of our namespace, which are those of the control plane, give way.
func yield(nice int) error {
	if nice == 0 {
		return nil
	}
	threads, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		process := filepath.Base(filepath.Dir(filepath.Dir(thread)))
		n, err := strconv.Atoi(filepath.Base(thread))
		if err != nil || process == strconv.Itoa(os.Getpid()) {
			continue
		}
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, n, nice); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("make the control plane give way: %w", err)
		}
	}
	return nil
}

// issue makes the certificates.
func (w *world) issue(ctx context.Context) error {
	w.pairs = make([]pair, 2*w.Load.Certificates)
	return w.each(ctx, len(w.pairs), func(_ context.Context, i int) (err error) {
		w.pairs[i].chain, w.pairs[i].key, err = w.cluster.Authority.Issue(w.Load.hostsOf(i / 2)...)
		return err
	})
}

func (w *world) close() {
	w.stopSluice()
	for i := len(w.stops) - 1; i >= 0; i-- {
		w.stops[i]()
	}
}

// startSluice starts it, and returns when it began, when it had read all objects, and when it was ready.
func (w *world) startSluice(ctx context.Context) (began, read, ready time.Time, err error) {
	began = time.Now()
	w.sluice, err = cluster.StartProcess(w.Dir, "sluice", w.Sluice, "serve", "--kubeconfig", w.cluster.Kubeconfig, "--http", httpAddress, "--https", httpsAddress,
		"--api-addr", adminAddress, "--publish-status-address", sluiceAddress)
	if err != nil {
		return began, read, ready, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		status, text := w.ask(ctx, "/readyz")
		if read.IsZero() && status != 0 && !strings.Contains(text, "not read yet") && !strings.Contains(text, "cannot be read") {
			read = time.Now()
		}
		if status == http.StatusOK {
			return began, read, time.Now(), nil
		}
		select {
		case <-ctx.Done():
			return began, read, ready, fmt.Errorf("wait for Sluice to be ready: %w; it says %s", ctx.Err(), text)
		case <-w.sluice.Done():
			return began, read, ready, fmt.Errorf("it ended with exit code %d: %s", w.sluice.ExitCode(), w.sluice.Tail())
		case <-tick.C:
		}
	}
}

func (w *world) stopSluice() {
	w.asker.close()
	if w.sluice == nil {
		return
	}
	begin := time.Now()
	_ = w.sluice.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-w.sluice.Done():
		w.say("Sluice ended %s after SIGTERM", short(time.Since(begin)))
	case <-time.After(endsWithin):
		w.counts.dropped("Sluice had not ended %s after SIGTERM; its log says what it did", endsWithin)
		_ = w.sluice.Signal(syscall.SIGQUIT) // it writes down what its goroutines do
		<-w.sluice.Done()
	}
	w.sluice = nil
}

// endsWithin is how long Sluice may take to end when nothing is in flight; 5 s of it, connections are still taken.
const endsWithin = 20 * time.Second

// ask asks Sluice's admin address; the status is 0 when it does not answer.
func (w *world) ask(ctx context.Context, path string) (status int, text string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+adminAddress+path, nil)
	if err != nil {
		return 0, err.Error()
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// metrics are those of Sluice now.
func (w *world) metrics(ctx context.Context) ([]sample, error) {
	status, text := w.ask(ctx, "/metrics")
	if status != http.StatusOK {
		return nil, fmt.Errorf("read metrics: %d %s", status, text)
	}
	return samples(strings.NewReader(text))
}

// usage of Sluice now.
func (w *world) usage() (usage, error) { return usageOf(w.sluice.Pid()) }

// keepProfile writes a profile of Sluice to a file of the folder for profiles, when there is one.
func (w *world) keepProfile(ctx context.Context, path, file string) error {
	if w.Profiles == "" {
		return nil
	}
	status, text := w.ask(ctx, "/debug/pprof/"+path)
	if status != http.StatusOK {
		return fmt.Errorf("take a profile: %d %s", status, text)
	}
	return os.WriteFile(filepath.Join(w.Profiles, file), []byte(text), 0o644)
}

// rest waits; it returns early when the context ends.
func rest(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
