package filters

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

// client is a stream of which only the request and the connection are asked.
type client struct {
	message.Stream
	request message.Request
}

func (c *client) Request() *message.Request { return &c.request }
func (c *client) Conn() *message.Conn       { return &message.Conn{Peer: "192.0.2.7", Port: "8080"} }

func exchange() *filter.Exchange {
	c := &client{request: message.Request{
		Method: "GET", Scheme: "http", Authority: "H.test:8080", Host: "h.test", Path: "/a", Target: "/a", Version: message.HTTP11,
	}}
	x := &filter.Exchange{}
	x.Reset(c)
	x.ClientIP, x.RequestID = "192.0.2.7", "id7"
	x.Start = time.Date(2026, 12, 1, 2, 3, 4, 0, time.UTC)
	return x
}

func build(t *testing.T, kind, spec string) filter.Filter {
	t.Helper()
	k := NewRegistry(Builtin()...).Kind(kind)
	decoded, err := k.Decode([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	f, err := k.New(decoded, filter.Env{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestCase_A12_Redirect(t *testing.T) {
	for _, c := range []struct {
		spec, authority, host, path, query string
		hasQuery                           bool
		want                               string
	}{
		{"", "h.test:8080", "h.test", "/a", "b=c&d", true, "https://h.test/a?b=c&d"},
		{"", "h.test", "h.test", "/a", "", false, "https://h.test/a"},
		{"", "h.test", "h.test", "/a", "", true, "https://h.test/a?"},
		{"", "[::1]:8080", "::1", "/a", "b=c&d", true, "https://[::1]/a?b=c&d"},
		{`{"port":8443}`, "h.test:8080", "h.test", "/a", "b=c&d", true, "https://h.test:8443/a?b=c&d"},
		{`{"port":8443}`, "[::1]:8080", "::1", "/", "", false, "https://[::1]:8443/"},
		{`{"port":443}`, "h.test.:80", "h.test", "/x%2Fy;z", "q=%zz;a", true, "https://h.test/x%2Fy;z?q=%zz;a"},
		{"null", "h.test", "h.test", "//evil.test/", "", false, "https://h.test//evil.test/"},
		{"", "h.test", "h.test", "*", "", false, "https://h.test/"},
	} {
		x := exchange()
		q := x.Request
		q.Authority, q.Host, q.Path, q.RawQuery, q.HasQuery = c.authority, c.host, c.path, c.query, c.hasQuery
		q.Header.Add("X-Forwarded-Host", "evil.test") // F9
		q.Header.Add("X-Forwarded-Port", "1")
		q.Header.Add("X-Forwarded-Proto", "https")
		if result := build(t, "HTTPSRedirect", c.spec).Handle(x); result != redirected {
			t.Errorf("%s: result %d", c.want, result)
		}
		if got := x.Response.Header.Get("Location"); got != c.want || x.Response.Status != 308 || x.Reason != message.RouteRedirect {
			t.Errorf("%d %s, want 308 %s", x.Response.Status, got, c.want)
		}
	}
}

func TestRedirectLeavesTLSAlone(t *testing.T) {
	x := exchange()
	x.Request.Scheme = "https"
	if result := build(t, "HTTPSRedirect", "").Handle(x); result != filter.Next || x.Response != nil {
		t.Errorf("%d %+v", result, x.Response)
	}
}

func TestRedirectWithoutAHost(t *testing.T) {
	x := exchange()
	x.Request.Host = ""
	if result := build(t, "HTTPSRedirect", `{"statusCode":301}`).Handle(x); result != redirected || x.Response.Status != 400 {
		t.Errorf("%d %+v", result, x.Response)
	}
}

func TestIPFilter(t *testing.T) {
	for _, c := range []struct {
		name     string
		spec     model.IPFilter
		let, not string
	}{
		{"empty lets all in", model.IPFilter{}, "192.0.2.1 2001:db8::1", ""},
		{"block by default", model.IPFilter{BlockByDefault: true}, "", "192.0.2.1 2001:db8::1"},
		{"allowed only", model.IPFilter{AllowIPs: []string{"192.0.2.0/24", "2001:db8::/32"}}, "192.0.2.0 192.0.2.255 2001:db8::1 2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "192.0.3.0 192.0.1.255 ::1 2001:db9:: 0.0.0.0"},
		{"blocked", model.IPFilter{BlockIPs: []string{"192.0.2.1", "10.0.0.0/8"}}, "192.0.2.2 11.0.0.0", "192.0.2.1 10.255.255.255"},
		{"in both, default open", model.IPFilter{AllowIPs: []string{"10.0.0.0/8"}, BlockIPs: []string{"10.1.0.0/16"}}, "10.0.0.1 10.1.0.1", "11.0.0.1"},
		{"in both, default closed", model.IPFilter{BlockByDefault: true, AllowIPs: []string{"10.0.0.0/8"}, BlockIPs: []string{"10.1.0.0/16"}}, "10.0.0.1", "10.1.0.1 11.0.0.1"},
		{"IPv4-mapped", model.IPFilter{AllowIPs: []string{"::ffff:10.0.0.0/104", "::ffff:192.0.2.1"}}, "10.1.2.3 ::ffff:10.1.2.3 192.0.2.1", "11.0.0.1 ::ffff:11.0.0.1"},
		{"networks within networks", model.IPFilter{AllowIPs: []string{"10.0.0.0/8", "10.1.0.0/16", "10.255.0.0/16", "11.0.0.1"}}, "10.0.0.0 10.255.255.255 10.1.0.0 11.0.0.1", "11.0.0.0 9.255.255.255"},
		{"host bits in a network", model.IPFilter{AllowIPs: []string{"10.1.2.3/8"}}, "10.0.0.0 10.255.255.255", "11.0.0.0"},
		{"everything", model.IPFilter{BlockByDefault: true, AllowIPs: []string{"0.0.0.0/0", "::/0"}}, "0.0.0.0 255.255.255.255 :: ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
		{"only IPv4 everything", model.IPFilter{AllowIPs: []string{"0.0.0.0/0"}}, "1.2.3.4", "2001:db8::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := NewIPFilter(&c.spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, ip := range strings.Fields(c.let) {
				if !f.AllowText(ip) {
					t.Errorf("%s is kept out", ip)
				}
			}
			for _, ip := range strings.Fields(c.not + " nonsense") {
				if f.AllowText(ip) {
					t.Errorf("%s is let in", ip)
				}
			}
		})
	}
	var none *IPFilter
	if made, err := NewIPFilter(nil); made != nil || err != nil || !none.Allow(netip.Addr{}) || !none.AllowText("x") {
		t.Error("no filter must let all in")
	}
}

func TestIPFilterErrors(t *testing.T) {
	_, err := NewIPFilter(&model.IPFilter{AllowIPs: []string{"10.0.0.0/8", "10.0.0.0/33", "fe80::1%eth0"}, BlockIPs: []string{"host"}})
	var got []string
	for _, e := range fieldErrors(err) {
		got = append(got, e.Field)
	}
	if diff := cmp.Diff([]string{"allowIPs[1]", "allowIPs[2]", "blockIPs[0]"}, got); diff != "" {
		t.Error(diff)
	}
}

// text is a body of unknown length that comes in small pieces.
type text struct{ io.Reader }

func (text) Trailer() *message.Header  { return nil }
func (text) Close() error              { return nil }
func (text) Probe(time.Duration) error { return errors.New("probed") }
func (text) Ready() (int, bool)        { return 100, true }

func TestBodyLimit(t *testing.T) {
	for _, c := range []struct {
		length int64
		body   string
		limit  int64
		ok     bool
		want   string
		over   bool
	}{
		{10, "0123456789", 10, true, "0123456789", false},
		{11, "", 10, false, "", false},
		{message.Unknown, "0123456789", 10, true, "0123456789", false},
		{message.Unknown, "0123456789a", 10, true, "0123456789", true},
		{message.Unknown, "0123456789abcdefghijklmno", 10, true, "0123456789", true},
		{message.Unknown, "", 10, true, "", false},
		{message.Unknown, "0123456789", 0, true, "0123456789", false},
		{1 << 40, "x", -1, true, "x", false},
	} {
		for _, size := range []int{1, 3, 10, 11, 100} {
			r := &message.Request{Length: c.length, Body: text{strings.NewReader(c.body)}}
			if ok := LimitBody(r, c.limit); ok != c.ok {
				t.Fatalf("%+v: %v", c, ok)
			}
			if !c.ok {
				continue
			}
			var got []byte
			var err error
			for p := make([]byte, size); err == nil; {
				var n int
				n, err = r.Body.Read(p)
				got = append(got, p[:n]...)
			}
			var broken *message.BodyError
			over := errors.As(err, &broken) && broken.Reason == message.BodyTooLarge
			if string(got) != c.want || over != c.over || !over && !errors.Is(err, io.EOF) {
				t.Errorf("%+v by %d: %q %v", c, size, got, err)
			}
			if _, again := r.Body.Read(make([]byte, 1)); again == nil {
				t.Error("reading goes on behind the end")
			}
		}
	}
}

func TestBodyLimitKeepsWhatTheBodyCanDo(t *testing.T) {
	r := &message.Request{Length: message.Unknown, Body: text{strings.NewReader("x")}}
	LimitBody(r, 10)
	if err := r.Body.(message.Prober).Probe(0); err == nil || err.Error() != "probed" {
		t.Error(err)
	}
	if n, end := r.Body.(message.Ready).Ready(); n != 10 || end {
		t.Errorf("%d %v: of 100 bytes 10 are ready, and not the end", n, end)
	}
}

func TestSetHeaders(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{"plain", "plain"},
		{"$host", "h.test"},
		{"a-${host}-b", "a-h.test-b"},
		{"$http_x_own/$http_missing", "mine/"},
		{"${http_missing:none}", "none"},
		{"${http_x_own:none}", "mine"},
		{"$http_host", "H.test:8080"},
		{"$arg_q $arg_Q2 $arg_no", "a%20b  "},
		{"$cookie_a,$cookie_b", "1,2=3"},
		{"$remote_addr", "192.0.2.7"},
		{"$proxy_add_x_forwarded_for", "192.0.2.7"},
		{"$scheme://$host$request_uri", "http://h.test/a?q=a%20b&x"},
		{"$uri$is_args$args", "/a?q=a%20b&x"},
		{"$request_method", "GET"},
		{"$request_id", "id7"},
		{"$time_iso8601", "2026-12-01T02:03:04Z"},
		{"$server_port $server_protocol", "8080 HTTP/1.1"},
		{"cost: 5$, $$x, $ y", "cost: 5$, $x, $ y"},
	} {
		x := exchange()
		q := x.Request
		q.Target, q.RawQuery, q.HasQuery = "/a?q=a%20b&x", "q=a%20b&x", true
		q.Header.Add("X-Own", "mine")
		q.Header.Add("Cookie", "a=1; b=2=3")
		h, err := NewHeaders(map[string]string{"X-Set": c.value})
		if err != nil {
			t.Fatal(err)
		}
		h.Apply(x)
		if got := q.Header.Get("X-Set"); got != c.want {
			t.Errorf("%q gave %q, want %q", c.value, got, c.want)
		}
	}
}

func TestSetHeadersChanges(t *testing.T) {
	x := exchange()
	x.Request.Header.Add("X-Gone", "1")
	x.Request.Header.Add("X-Kept", "1")
	x.Request.Header.Add("X-Swap", "1")
	h, err := NewHeaders(map[string]string{"X-Gone": "", "X-Swap": "${http_x_gone}2", "Host": "other.test", "X-Empty": "$http_no"})
	if err != nil {
		t.Fatal(err)
	}
	h.Apply(x)
	var got []string
	for name, value := range x.Request.Header.All() {
		got = append(got, name+"="+value)
	}
	if diff := cmp.Diff([]string{"X-Kept=1", "X-Swap=12", "X-Empty="}, got); diff != "" {
		t.Error(diff)
	}
	if x.Request.Authority != "other.test" {
		t.Error(x.Request.Authority)
	}
	var none *Headers
	none.Apply(x)
}

func TestSetHeadersErrors(t *testing.T) {
	for name, c := range map[string]struct{ field, value, want string }{
		"unknown variable": {"X", "$hots", `X: there is no variable $hots; did you mean "host"?`},
		"open brace":       {"X", "${host", "X: a ${ has no }: ${host"},
		"line break":       {"X", "a\r\nb", "X: the value has a control character at byte 1"},
		"bad name":         {"X Y", "a", `X Y: "X Y" is no field name; use letters, digits and -`},
		"framing":          {"content-length", "5", "content-length: Content-Length frames the message or concerns one connection and cannot be set; remove it"},
		"empty argument":   {"X", "$arg_", "X: there is no variable $arg_"},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := NewHeaders(map[string]string{c.field: c.value})
			if h != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// origin is an upstream that answers as told.
type origin struct {
	status  int
	reason  message.Reason
	options filter.ForwardOptions
}

func (o *origin) Forward(x *filter.Exchange, options filter.ForwardOptions) error {
	o.options = options
	if o.reason != message.OK {
		x.Reply(o.reason)
		return errors.New("as told")
	}
	if o.status != 0 {
		x.Answer().Status = o.status
	}
	return nil
}

func TestProxyResults(t *testing.T) {
	for _, c := range []struct {
		status int
		reason message.Reason
		codes  []int
		want   string
	}{
		{200, 0, nil, ""},
		{404, 0, nil, ""},
		{500, 0, nil, "failureCode"},
		{500, 0, []int{404}, ""},
		{404, 0, []int{404}, "failureCode"},
		{0, message.UpstreamTimeout, nil, "timeout"},
		{0, message.ConnectTimeout, nil, "timeout"},
		{0, message.ConnectFailed, nil, "serverError"},
		{0, message.NoEndpoints, nil, "serverError"},
		{0, message.UpstreamReset, nil, "serverError"},
		{0, message.ClientGone, nil, "clientError"},
		{0, message.BadChunk, nil, "clientError"},
		{0, message.BodyTooLarge, nil, "clientError"},
		{0, message.FilterBroken, nil, "internalError"},
		{0, 0, nil, "internalError"},
	} {
		o := &origin{status: c.status, reason: c.reason}
		p := &model.Pipeline{Filters: []model.Filter{{Name: "p", Kind: "Proxy", Proxy: &model.Proxy{Pools: []*model.Pool{{
			Service: "u", FailureCodes: c.codes, Timeout: model.Duration(time.Second),
		}}}}}}
		chain, problems := Build(p, NewRegistry(Builtin()...), filter.Env{Upstream: func(name string) filter.Upstream {
			if name != "u" {
				t.Errorf("asked for upstream %q", name)
			}
			return o
		}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		result := chain.Steps()[0].Filter.Handle(exchange())
		got := ""
		if result > 0 {
			got = proxyKind().Results[result-1]
		}
		if got != c.want {
			t.Errorf("%d %s: %q, want %q", c.status, c.reason, got, c.want)
		}
		if !o.options.KeepHost || o.options.Timeout != time.Second {
			t.Errorf("%+v", o.options)
		}
	}
}
