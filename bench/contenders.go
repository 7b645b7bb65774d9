package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// program is one contender: how it is started, and where it listens.
type program struct {
	name string
	port int
	argv []string
}

// contenders writes the configurations and returns the programs, Sluice first. All add X-Forwarded-For, -Proto and -Host,
// keep connections to the origin, use two workers and write no access log.
func contenders(o options, self string, origin int, ports []int) ([]program, error) {
	files := map[string]string{
		"sluice.yaml": fmt.Sprintf(manifests, origin, origin),
		"nginx.conf":  fmt.Sprintf(nginxConf, o.dir, o.dir, origin, ports[1]),
		"haproxy.cfg": fmt.Sprintf(haproxyConf, ports[2], origin),
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(o.dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	nginx, err := find("nginx")
	if err != nil {
		return nil, err
	}
	haproxy, err := find("haproxy")
	if err != nil {
		return nil, err
	}
	return []program{
		{"sluice", ports[0], []string{o.sluice, "serve", "--manifests", filepath.Join(o.dir, "sluice.yaml"), "--http", address(ports[0]), "--https", "off", "--api-addr", "off"}},
		{"nginx", ports[1], []string{nginx, "-c", filepath.Join(o.dir, "nginx.conf")}},
		{"haproxy", ports[2], []string{haproxy, "-db", "-f", filepath.Join(o.dir, "haproxy.cfg")}},
		{"nethttp", ports[3], []string{self, "-role", "nethttp", "-port", strconv.Itoa(ports[3])}},
	}, nil
}

func find(name string) (string, error) {
	for _, candidate := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed: apt-get install nginx-light haproxy wrk", name)
}

const manifests = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: bench, namespace: default}
spec:
  rules:
  - host: bench.example.com
    http:
      paths:
      - path: /
        pathType: Prefix
        backend: {service: {name: bench, port: {number: 80}}}
---
apiVersion: v1
kind: Service
metadata: {name: bench, namespace: default}
spec:
  ports: [{port: 80, targetPort: %d}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: bench-1
  namespace: default
  labels: {kubernetes.io/service-name: bench}
addressType: IPv4
ports: [{name: "", port: %d, protocol: TCP}]
endpoints:
- addresses: [127.0.0.1]
  conditions: {ready: true}
`

const nginxConf = `worker_processes 2; daemon off; error_log %s/nginx.err; pid %s/nginx.pid; worker_rlimit_nofile 16384;
events { worker_connections 8192; }
http { access_log off; keepalive_requests 1000000000;
  upstream b { server 127.0.0.1:%d; keepalive 512; keepalive_requests 100000000; }
  server { listen 127.0.0.1:%d reuseport backlog=4096; location / { proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_set_header Host $host; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host; } } }
`

const haproxyConf = `global
  nbthread 2
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend f
  bind 127.0.0.1:%d
  option forwardfor
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %%[req.hdr(host)]
  default_backend b
backend b
  server s 127.0.0.1:%d pool-max-conn 512
`
