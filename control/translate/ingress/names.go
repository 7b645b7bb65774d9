package ingress

import (
	"slices"
	"strconv"
	"strings"

	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/model"
)

// ServiceRef names a port of a Service, by its name or else by its number.
type ServiceRef struct {
	Namespace string
	Service   string
	PortName  string
	Port      int32
}

// ParseRef makes a ServiceRef of "namespace/name:port", which must be one.
func ParseRef(text string) (ServiceRef, bool) {
	namespace, name, port, ok := model.ParseService(text)
	ref := ServiceRef{Namespace: namespace, Service: name}
	if n, err := strconv.ParseInt(port, 10, 32); err == nil {
		ref.Port = int32(n)
	} else {
		ref.PortName = port
	}
	return ref, ok
}

// String is "namespace/name:port", which is the name of the upstream too. What cannot stand in a name is escaped, so that two
// references have one name only when they are equal.
func (r ServiceRef) String() string {
	port := strconv.Itoa(int(r.Port))
	if r.PortName != "" {
		port = escape(r.PortName)
		if _, err := strconv.Atoi(port); err == nil {
			port = "%" + strconv.FormatUint(uint64(port[0]), 16) + port[1:]
		}
	}
	return escape(r.Namespace) + "/" + escape(r.Service) + ":" + port
}

// path is that of the Service.
func (r ServiceRef) path() string { return r.Namespace + "/" + r.Service }

func (r ServiceRef) key() model.Key {
	return model.Key{Kind: store.KindService, Namespace: r.Namespace, Name: r.Service}
}

// port is the port as its author wrote it.
func (r ServiceRef) port() string {
	if r.PortName != "" {
		return strconv.Quote(clip(r.PortName))
	}
	return strconv.Itoa(int(r.Port))
}

// escape writes bytes that stand in no Kubernetes name as %xx.
func escape(s string) string {
	if strings.IndexFunc(s, special) < 0 {
		return s
	}
	const hex = "0123456789abcdef"
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; special(rune(c)) {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func special(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.' && c != '_'
}

// target is where a path leads: to a port of a Service, or, when broken says what stands there instead, nowhere.
type target struct {
	ref    ServiceRef
	broken string
}

// name is that of the upstream.
func (t target) name() string {
	if t.broken != "" {
		return escape(t.ref.Namespace) + "/~" + escape(t.broken)
	}
	return t.ref.String()
}

// redirectSuffix ends the names of pipelines that send plain HTTP to HTTPS.
const redirectSuffix = "+ssl-redirect"

// clip keeps messages readable, whatever stands in a field.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// count says "1 slice" and "2 slices".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// list joins up to three words and says how many more there are.
func list(words []string) string {
	const most = 3
	switch {
	case len(words) <= 1:
		return strings.Join(words, "")
	case len(words) <= most:
		return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
	}
	return strings.Join(words[:most], ", ") + " and " + strconv.Itoa(len(words)-most) + " more"
}

// distinct returns the words without those that stand there already, in the order given.
func distinct(words []string) []string {
	if len(words) < 2 {
		return words
	}
	seen := make(map[string]bool, len(words))
	return slices.DeleteFunc(words, func(word string) bool {
		if seen[word] {
			return true
		}
		seen[word] = true
		return false
	})
}

// roomless returns m, or a new map when it is empty and so keeps nothing but the room that it once needed.
func roomless[K comparable, V any](m map[K]V) map[K]V {
	if len(m) == 0 {
		return map[K]V{}
	}
	return m
}

// emptied returns m without its elements, a new map when m is large: a map keeps the room that it once needed.
func emptied[K comparable, V any](m map[K]V) map[K]V {
	if len(m) > 100 {
		return map[K]V{}
	}
	clear(m)
	return m
}
