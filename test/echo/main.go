// Command echo is the backend of tests: an HTTP server that answers every request with what it saw of it, as JSON. Its settings
// are environment variables, so that a Deployment can give them; flags of the same names win.
//
//	HTTP_PORT     3000    cleartext, HTTP/1.1 and HTTP/2
//	HTTPS_PORT    8443    with TLS_SERVER_CERT and TLS_SERVER_PRIVKEY (files); TLS_CLIENT_CACERTS asks clients for certificates
//	EXIT_AFTER    0       after SIGTERM, be unready but serve for so long, then finish what is in flight and exit
//	DIE           false   at SIGTERM, exit at once
//	NAMESPACE, POD_NAME, INGRESS_NAME, SERVICE_NAME  are part of each answer
//
// Paths: /health; /status/NNN answers with that status; /slow?bytes=N&chunk=N&every=DURATION writes slowly; /ws echoes WebSocket
// messages; ?delay=DURATION waits first. The request header X-Echo-Set-Header with NAME:VALUE sets a header of the answer.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

// settings of the program.
type settings struct {
	httpPort, httpsPort  string
	cert, key, clientCAs string
	exitAfter            time.Duration
	die                  bool
	namespace, pod       string
	ingress, service     string
}

// parse reads flags and environment: the flag http-port is the variable HTTP_PORT.
func parse(args []string, env func(string) string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("echo", flag.ContinueOnError)
	flags.StringVar(&s.httpPort, "http-port", "3000", "cleartext port")
	flags.StringVar(&s.httpsPort, "https-port", "8443", "TLS port")
	flags.StringVar(&s.cert, "tls-server-cert", "", "file")
	flags.StringVar(&s.key, "tls-server-privkey", "", "file")
	flags.StringVar(&s.clientCAs, "tls-client-cacerts", "", "file")
	flags.DurationVar(&s.exitAfter, "exit-after", 0, "time to serve after SIGTERM")
	flags.BoolVar(&s.die, "die", false, "exit at once at SIGTERM")
	flags.StringVar(&s.namespace, "namespace", "", "part of the answer")
	flags.StringVar(&s.pod, "pod-name", "", "part of the answer")
	flags.StringVar(&s.ingress, "ingress-name", "", "part of the answer")
	flags.StringVar(&s.service, "service-name", "", "part of the answer")
	var err error
	flags.VisitAll(func(f *flag.Flag) {
		name := strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value := env(name); value != "" && err == nil {
			if err = flags.Set(f.Name, value); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
	})
	if err != nil {
		return s, err
	}
	return s, flags.Parse(args)
}

func run() error {
	s, err := parse(os.Args[1:], os.Getenv)
	if err != nil {
		return err
	}
	e := &echo{settings: s}
	servers, err := s.listen(e)
	if err != nil {
		return err
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM, syscall.SIGINT)
	<-term
	if s.die {
		return nil
	}
	e.leaving.Store(true)
	<-time.After(s.exitAfter)
	var all sync.WaitGroup
	for _, server := range servers {
		all.Go(func() { _ = server.Shutdown(context.Background()) }) // it waits for what is in flight; SIGKILL is the limit
	}
	all.Wait()
	return nil
}

// listen starts the servers.
func (s settings) listen(h http.Handler) ([]*http.Server, error) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	plain := &http.Server{Handler: h, Protocols: &protocols}
	listener, err := net.Listen("tcp", ":"+s.httpPort)
	if err != nil {
		return nil, err
	}
	go serve(func() error { return plain.Serve(listener) })
	if s.cert == "" {
		return []*http.Server{plain}, nil
	}
	secure := &http.Server{Handler: h, Protocols: &protocols, TLSConfig: &tls.Config{}}
	if s.clientCAs != "" {
		pem, err := os.ReadFile(s.clientCAs)
		if err != nil {
			return nil, err
		}
		secure.TLSConfig.ClientCAs, secure.TLSConfig.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		secure.TLSConfig.ClientCAs.AppendCertsFromPEM(pem)
	}
	if listener, err = net.Listen("tcp", ":"+s.httpsPort); err != nil {
		return nil, err
	}
	go serve(func() error { return secure.ServeTLS(listener, s.cert, s.key) })
	return []*http.Server{plain, secure}, nil
}

func serve(run func() error) {
	if err := run(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}
