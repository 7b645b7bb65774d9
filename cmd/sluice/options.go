package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"sluice.dev/sluice/telemetry"
)

// options are the settings of serve, from flags, environment, server file and defaults, in that order.
type options struct {
	manifests    []string
	configFile   string
	initialFiles []string
	http, https  string
	classes      []string
	api          string
	backend      string
	certificate  string
	externals    bool // the names of ExternalName Services are followed
	trusted      []string
	publicPort   uint16
	accessLog    string
	logFormat    string
	logLevel     string
	logDir       string
	cluster      clusterOptions
	check        bool
	pod          bool // the program runs in a Pod, by what Kubernetes sets in every container

	environment []string          // flags that the environment may give
	given       map[string]string // settings that are not defaults, and where they were given
	ignored     []string          // keys of the server file that this version does nothing with
}

// off turns an address or the access log off.
const off = "off"

// define adds the flags of serve. What a flag is not given, the environment and the server file may.
func (o *options) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringSliceVarP(&o.manifests, "manifests", "m", nil, "file or folder of objects, watched; repeatable")
	o.cluster.define(f)
	o.cluster.definePublish(f)
	f.StringVar(&o.http, "http", ":8080", "address for HTTP, or off")
	f.StringVar(&o.https, "https", ":8443", "address for HTTPS, or off")
	o.defineObjects(f)
	f.StringSliceVar(&o.trusted, "trusted-proxies", nil, "networks whose X-Forwarded-* fields are believed")
	f.StringVar(&o.api, "api-addr", "localhost:2381", "health, metrics, explain; or off")
	f.StringVar(&o.accessLog, "access-log", off, strings.Join(telemetry.AccessFormats, " or ")+"; or off")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logDir, "log-dir", "", "folder for sluice.log and access.log")
	f.StringVarP(&o.configFile, "config-file", "f", "", "server file, such as easegress-server.yaml")
	f.StringSliceVar(&o.initialFiles, "initial-object-config-files", nil, "files of objects")
	f.BoolVar(&o.check, "check", false, "validate everything, connect to nothing, and exit")
}

// defineObjects adds the flags that say what becomes of objects; check and explain have them too.
func (o *options) defineObjects(f *pflag.FlagSet) {
	f.StringSliceVar(&o.classes, "ingress-class", nil, "Ingresses of this class only; repeatable")
	f.StringVar(&o.backend, "default-backend", "", "NAMESPACE/NAME:PORT, a Service for what no Ingress takes")
	f.StringVar(&o.certificate, "default-ssl-certificate", "", "NAMESPACE/NAME of the Secret for all other hosts")
	f.BoolVar(&o.externals, externalsFlag, false, "follow the names of ExternalName Services")
	f.Uint16Var(&o.publicPort, "public-https-port", 443, "port of HTTPS as clients see it, for redirects")
}

// newOptions returns the defaults. The environment may give the flags named.
func newOptions(environment ...string) *options {
	o := &options{environment: environment}
	o.define(pflag.NewFlagSet("", pflag.ContinueOnError))
	return o
}

const externalsFlag = "allow-external-name-services"

// objectSettings are the flags that say what becomes of objects.
func objectSettings() []string {
	return []string{"ingress-class", "default-backend", "default-ssl-certificate", externalsFlag, "public-https-port"}
}

// complete fills in, from the environment and the server file, what the flags do not give, and checks what can be checked.
func (o *options) complete(f *pflag.FlagSet, env func(string) (string, bool)) error {
	_, o.pod = env("KUBERNETES_SERVICE_HOST")
	o.given = map[string]string{}
	f.Visit(func(flag *pflag.Flag) { o.given[flag.Name] = "--" + flag.Name })
	for _, flag := range o.environment {
		name := "SLUICE_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		value, found := env(name)
		if !found || o.given[flag] != "" {
			continue
		}
		if err := f.Set(flag, value); err != nil {
			return wrong("%s: %w", name, reason(err))
		}
		o.given[flag] = name
	}
	if o.configFile != "" {
		if err := o.fromFile(f); err != nil {
			return err
		}
	}
	if o.logDir != "" && o.given["access-log"] == "" {
		o.accessLog = telemetry.AccessFormats[0]
	}
	return o.validate()
}

// fromFile takes from the server file what nothing else gave.
func (o *options) fromFile(f *pflag.FlagSet) error {
	file, err := readServerFile(o.configFile)
	if err != nil {
		return err
	}
	o.ignored = file.ignored
	for _, s := range file.settings {
		if o.given[s.name] != "" {
			continue
		}
		where := fmt.Sprintf("%s:%d", o.configFile, s.line)
		for _, value := range s.values {
			if err := f.Set(s.name, value); err != nil {
				return wrong("%s %s: %w", where, s.key, reason(err))
			}
		}
		o.given[s.name] = where + " " + s.key
	}
	return nil
}

// reason is why pflag does not take a value, without its wrapping.
func reason(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		err = invalid.Unwrap()
		var number *strconv.NumError
		if errors.As(err, &number) {
			if number.Func == "ParseBool" {
				return fmt.Errorf("%q is neither true nor false", number.Num)
			}
			return fmt.Errorf("%q is no number from 0 to 65535", number.Num)
		}
	}
	return err
}

// validate checks each setting by itself.
func (o *options) validate() error {
	_, levelErr := parseLevel(o.logLevel)
	_, trustedErr := o.trustedNetworks()
	for _, checked := range []struct {
		name string
		err  error
	}{
		{"http", checkAddress(o.http)},
		{"https", checkAddress(o.https)},
		{"api-addr", checkAPIAddress(o.api)},
		{"log-level", levelErr},
		{"log-format", oneOf(o.logFormat, "text", "json")},
		{"access-log", oneOf(o.accessLog, append([]string{off}, telemetry.AccessFormats...)...)},
		{"trusted-proxies", trustedErr},
		{"default-ssl-certificate", checkName(o.certificate)},
		{"default-backend", checkBackend(o.backend)},
		{"public-https-port", checkPort(o.publicPort)},
		{"ingress-class", o.notEmptied("ingress-class", o.classes)},
		{"watch-namespace", errors.Join(o.notEmptied("watch-namespace", o.cluster.namespaces), checkNamespaces(o.cluster.namespaces))},
		{"publish-service", checkName(o.cluster.service)},
		{"publish-status-address", checkPublished(o.cluster.addresses)},
	} {
		if checked.err == nil {
			continue
		}
		where := o.given[checked.name]
		if where == "" {
			where = "--" + checked.name
		}
		return wrong("%s: %w", where, checked.err)
	}
	return nil
}

// notEmptied refuses a list that was given and holds nothing, such as of a variable that is not set: it would stand for everything.
func (o *options) notEmptied(name string, list []string) error {
	if o.given[name] != "" && !slices.ContainsFunc(list, func(value string) bool { return value != "" }) {
		return errors.New("it is set to nothing; name one, or leave it out for all")
	}
	return nil
}

func checkPort(port uint16) error {
	if port == 0 {
		return fmt.Errorf("0 is no port; write 443")
	}
	return nil
}

func oneOf(value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("%q is not known; use %s", value, strings.Join(known, ", "))
}

func checkAddress(address string) error {
	if address == off {
		return nil
	}
	_, _, err := splitAddress(address)
	return err
}

// checkAPIAddress lets names be, which may resolve to an address of this machine.
func checkAPIAddress(address string) error {
	if address == off {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return fmt.Errorf("%q is no address; write localhost:2381, :2381 or off", address)
	}
	return nil
}

// splitAddress reads HOST:PORT, :PORT or PORT. The host is "", localhost or an IP address.
func splitAddress(address string) (host string, port uint16, err error) {
	host, text, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		host, text = "", address
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", 0, fmt.Errorf("%q is no address; write 127.0.0.1:8080, :8080 or off", address)
	}
	if host == "" || host == "localhost" {
		return host, uint16(n), nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return "", 0, fmt.Errorf("%q has no IP address; write 127.0.0.1:%d, or :%d for all addresses", address, n, n)
	}
	return host, uint16(n), nil
}

func checkName(text string) error {
	namespace, name, found := strings.Cut(text, "/")
	if text != "" && (!found || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return fmt.Errorf("%q: write NAMESPACE/NAME", text)
	}
	return nil
}

func checkBackend(text string) error {
	if text == "" {
		return nil
	}
	service, port, found := strings.Cut(text, ":")
	if !found || port == "" || checkName(service) != nil {
		return fmt.Errorf("%q: write NAMESPACE/NAME:PORT", text)
	}
	return nil
}

// trustedNetworks reads --trusted-proxies: networks, or single addresses.
func (o *options) trustedNetworks() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range o.trusted {
		text = strings.TrimSpace(text)
		if addr, err := netip.ParseAddr(text); err == nil {
			all = append(all, netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no network; write 10.0.0.0/8 or 10.1.2.3", text)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}
