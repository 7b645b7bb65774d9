package pods

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// eager is how often a probe is tried until it succeeds for the first time, so that tests need not wait for a whole period. Only
// one failure a period counts.
const eager = 100 * time.Millisecond

// startProbes runs the container's probes until the context ends. The reason for which it has to be restarted goes to unhealthy.
func (c *container) startProbes(ctx context.Context, all *sync.WaitGroup, unhealthy chan<- string) {
	all.Go(func() {
		if !c.startUp(ctx, unhealthy) {
			return
		}
		if p := c.spec.ReadinessProbe; p != nil {
			all.Go(func() {
				c.watch(ctx, p, func(err error) bool {
					c.update(func() { c.ready = err == nil })
					return true
				})
			})
		}
		if p := c.spec.LivenessProbe; p != nil {
			wanted, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(c.stop, cancel)() // what is ending anyway is not restarted
			c.watch(wanted, p, func(err error) bool {
				if err != nil {
					unhealthy <- fmt.Sprintf("liveness probe: %v", err)
				}
				return err == nil
			})
		}
	})
}

// startUp waits for the startup probe; it returns false when that failed.
func (c *container) startUp(ctx context.Context, unhealthy chan<- string) (ok bool) {
	p := c.spec.StartupProbe
	if p == nil {
		return true
	}
	c.watch(ctx, p, func(err error) bool {
		if ok = err == nil; !ok {
			unhealthy <- fmt.Sprintf("startup probe: %v", err)
		}
		return false
	})
	if ok {
		c.update(func() { c.started, c.ready = true, c.spec.ReadinessProbe == nil })
	}
	return ok
}

// watch tries a probe and gives its verdict each time a threshold is reached (nil: success), until the context ends or verdict
// returns false.
func (c *container) watch(ctx context.Context, p *corev1.Probe, verdict func(error) bool) {
	if !pause(ctx, time.Duration(p.InitialDelaySeconds)*time.Second) {
		return
	}
	period := time.Duration(max(p.PeriodSeconds, 1)) * time.Second
	successes, failures, once := int32(0), int32(0), false
	for counted := time.Now(); ; {
		err := c.try(ctx, p)
		if ctx.Err() != nil {
			return
		}
		switch due := time.Since(counted) >= period; {
		case err == nil:
			successes, failures, once = successes+1, 0, true
		case once || due:
			successes, failures = 0, failures+1
			if due {
				counted = time.Now()
			}
		}
		if err == nil && successes >= max(p.SuccessThreshold, 1) || err != nil && failures >= max(p.FailureThreshold, 1) {
			if !verdict(err) {
				return
			}
		}
		next := period
		if !once {
			next = min(eager, period)
		}
		if !pause(ctx, next) {
			return
		}
	}
}

// pause waits; it returns false when the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// try runs a probe once.
func (c *container) try(ctx context.Context, p *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	switch {
	case p.HTTPGet != nil:
		return c.httpGet(ctx, p.HTTPGet)
	case p.TCPSocket != nil:
		address, err := c.endpoint(p.TCPSocket.Host, p.TCPSocket.Port)
		if err != nil {
			return err
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	case p.Exec != nil:
		c.pod.mu.Lock()
		run := c.run
		c.pod.mu.Unlock()
		if run == nil {
			return fmt.Errorf("the container does not run")
		}
		if out, err := run.exec(ctx, p.Exec.Command); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	return fmt.Errorf("this kind of probe is not supported")
}

// httpGet asks as a kubelet does: any certificate is taken, and a status from 200 to 399 is success.
func (c *container) httpGet(ctx context.Context, g *corev1.HTTPGetAction) error {
	address, err := c.endpoint(g.Host, g.Port)
	if err != nil {
		return err
	}
	scheme := "http"
	if g.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	path := g.Path
	if path == "" || path[0] != '/' {
		path = "/" + path
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/1.37")
	for _, h := range g.HTTPHeaders {
		request.Header.Add(h.Name, h.Value)
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			request.Host = h.Value
		}
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with status %d", response.StatusCode)
	}
	return nil
}

// endpoint is the address of a port, which may be named.
func (c *container) endpoint(host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = c.pod.address()
	}
	if port.Type == intstr.Int {
		return net.JoinHostPort(host, strconv.Itoa(port.IntValue())), nil
	}
	for _, p := range c.spec.Ports {
		if p.Name == port.StrVal {
			return net.JoinHostPort(host, strconv.Itoa(int(p.ContainerPort))), nil
		}
	}
	return "", fmt.Errorf("no port is named %q", port.StrVal)
}
