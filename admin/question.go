package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// Question is a request that is to be explained.
type Question struct {
	Method string // GET when none is given
	URL    *url.URL
	Header [][2]string // in order
	Client netip.Addr  // invalid when not said
}

// ParseQuestion reads a question from the parameters url, method, header ("Name: value", any number) and client.
func ParseQuestion(v url.Values) (*Question, error) {
	q := &Question{Method: v.Get("method")}
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	text := v.Get("url")
	if text == "" {
		return nil, fmt.Errorf("which request? ask with ?url=http://host/path")
	}
	var err error
	if q.URL, err = ParseURL(text); err != nil {
		return nil, err
	}
	for _, line := range v["header"] {
		name, value, found := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !found || name == "" {
			return nil, fmt.Errorf("header %q: write it as 'Name: value'", line)
		}
		q.Header = append(q.Header, [2]string{name, strings.TrimSpace(value)})
	}
	if client := v.Get("client"); client != "" {
		if q.Client, err = netip.ParseAddr(client); err != nil {
			return nil, fmt.Errorf("client %q is no IP address", client)
		}
	}
	return q, nil
}

// ParseURL reads the URL of a request; without a scheme it is http.
func ParseURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("URL %q: the scheme is http or https", text)
	case u.Host == "":
		return nil, fmt.Errorf("URL %q has no host", text)
	}
	return u, nil
}

// Values is the question as parameters.
func (q *Question) Values() url.Values {
	v := url.Values{"url": {q.URL.String()}, "method": {q.Method}}
	for _, field := range q.Header {
		v.Add("header", field[0]+": "+field[1])
	}
	if q.Client.IsValid() {
		v.Set("client", q.Client.String())
	}
	return v
}
