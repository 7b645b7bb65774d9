package main

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/model/document"
)

// serverFile is what a server file gives.
type serverFile struct {
	settings []setting
	ignored  []string // keys that this version does nothing with
}

// setting is one flag that a key of the file gives.
type setting struct {
	name   string // of the flag
	key    string
	line   int
	values []string
}

// serverKeys are the keys of a server file: the flags of serve, and what easegress-server.yaml has.
type serverKeys struct {
	Manifests          []string `json:"manifests"`
	Kubeconfig         *string  `json:"kubeconfig"`
	KubeContext        *string  `json:"kube-context"`
	WatchNamespace     []string `json:"watch-namespace"`
	PublishService     *string  `json:"publish-service"`
	PublishAddress     []string `json:"publish-status-address"`
	HTTP               *string  `json:"http"`
	HTTPS              *string  `json:"https"`
	IngressClass       []string `json:"ingress-class"`
	DefaultBackend     *string  `json:"default-backend"`
	DefaultCertificate *string  `json:"default-ssl-certificate"`
	ExternalNames      *bool    `json:"allow-external-name-services"`
	TrustedProxies     []string `json:"trusted-proxies"`
	PublicHTTPSPort    *uint16  `json:"public-https-port"`
	APIAddr            *string  `json:"api-addr"`
	AccessLog          *string  `json:"access-log"`
	LogFormat          *string  `json:"log-format"`
	LogLevel           *string  `json:"log-level"`
	LogDir             *string  `json:"log-dir"`
	InitialFiles       []string `json:"initial-object-config-files"`
	Debug              *bool    `json:"debug"`
	DisableAccessLog   *bool    `json:"disable-access-log"`
	DisableAccess      *bool    `json:"disable-access"`

	Name                  *string           `json:"name"`
	Labels                map[string]string `json:"labels"`
	ClusterName           *string           `json:"cluster-name"`
	ClusterRole           *string           `json:"cluster-role"`
	ClusterRequestTimeout *string           `json:"cluster-request-timeout"`
	Cluster               *clusterKeys      `json:"cluster"`
	StandaloneEtcd        *bool             `json:"use-standalone-etcd"`
	ForceNewCluster       *bool             `json:"force-new-cluster"`
	SignalUpgrade         *bool             `json:"signal-upgrade"`
	HomeDir               *string           `json:"home-dir"`
	DataDir               *string           `json:"data-dir"`
	WALDir                *string           `json:"wal-dir"`
	DumpInterval          *string           `json:"objects-dump-interval"`
	StatusBatch           *int              `json:"status-update-max-batch-size"`
	CPUProfile            *string           `json:"cpu-profile-file"`
	MemoryProfile         *string           `json:"memory-profile-file"`
	TLS                   *bool             `json:"tls"`
	CertFile              *string           `json:"cert-file"`
	KeyFile               *string           `json:"key-file"`
	ClientCAFile          *string           `json:"client-ca-file"`
	BasicAuth             map[string]string `json:"basic-auth"`
}

type clusterKeys struct {
	ListenClient        []string          `json:"listen-client-urls"`
	ListenPeer          []string          `json:"listen-peer-urls"`
	AdvertiseClient     []string          `json:"advertise-client-urls"`
	InitialAdvertise    []string          `json:"initial-advertise-peer-urls"`
	InitialCluster      map[string]string `json:"initial-cluster"`
	StateFlag           *string           `json:"state-flag"`
	PrimaryListenPeer   []string          `json:"primary-listen-peer-urls"`
	MaxCallSendSize     *int              `json:"max-call-send-msg-size"`
	MaxCallSendSizeFlat *int              `json:"max-call-send-message-size"`
}

// settingKeys are the keys that give the flag of the same name.
func settingKeys() []string {
	return append(clusterSettings(),
		"manifests", "http", "https", "ingress-class", "default-backend", "default-ssl-certificate", externalsFlag, "trusted-proxies", "public-https-port",
		"api-addr", "access-log", "log-format", "log-level", "log-dir", "initial-object-config-files",
	)
}

// readServerFile reads a server file. The error names the line of what is wrong first, and all else that is.
func readServerFile(path string) (*serverFile, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, wrong("read the server file: %w", err)
	}
	docs, broken := document.Parse(path, data)
	if len(broken) > 0 {
		return nil, wrong("%w", broken[0])
	}
	if len(docs) > 1 {
		return nil, wrong("%s:%d a server file is one document; objects belong into --manifests or --initial-object-config-files", path, docs[1].Line)
	}
	file := &serverFile{}
	if len(docs) == 0 {
		return file, nil
	}
	var keys serverKeys
	if errs := docs[0].Decode(&keys); len(errs) > 0 {
		lines := make([]string, len(errs))
		for i, e := range errs {
			lines[i] = path + ":" + strconv.Itoa(e.Line) + " " + e.Error()
		}
		return nil, wrong("%s", strings.Join(lines, "\n"))
	}
	file.take(docs[0], reflect.ValueOf(keys))
	return file, nil
}

// take sorts the keys that the file has into settings and the rest.
func (f *serverFile) take(doc *document.Document, keys reflect.Value) {
	for i := range keys.NumField() {
		value := keys.Field(i)
		if value.IsZero() {
			continue
		}
		key := keys.Type().Field(i).Tag.Get("json")
		s := setting{name: key, key: key, line: doc.LineOf(key)}
		switch {
		case slices.Contains(settingKeys(), key):
			s.values = texts(value)
		case key == "debug" && value.Elem().Bool():
			s.name, s.values = "log-level", []string{"debug"}
		case (key == "disable-access-log" || key == "disable-access") && value.Elem().Bool():
			s.name, s.values = "access-log", []string{off}
		case key == "debug", key == "disable-access-log", key == "disable-access", key == "name":
			continue
		default:
			f.ignored = append(f.ignored, key)
			continue
		}
		f.settings = append(f.settings, s)
	}
}

// texts are the values of a key as a flag would have them.
func texts(v reflect.Value) []string {
	switch v := v.Interface().(type) {
	case []string:
		return v
	case *string:
		return []string{*v}
	case *bool:
		return []string{strconv.FormatBool(*v)}
	case *uint16:
		return []string{strconv.Itoa(int(*v))}
	}
	return nil
}
