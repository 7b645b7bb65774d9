package filters

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

// template is a text with variables, in pieces.
type template []piece

// piece is literal text, or a variable with what stands in when it is empty.
type piece struct {
	text     string // literal, or default
	variable func(x *filter.Exchange, argument string) string
	argument string
}

type variable = func(x *filter.Exchange, argument string) string

// named finds a variable, and what it asks for when its name goes on with that: the field name of $http_x_id is x-id.
func named(name string) (v variable, argument string) {
	if v := plainVariables()[name]; v != nil {
		return v, ""
	}
	prefix, rest, _ := strings.Cut(name, "_")
	if v = prefixedVariables()[prefix+"_"]; rest == "" || v == nil {
		return nil, ""
	}
	if prefix == "http" {
		rest = strings.ReplaceAll(rest, "_", "-")
	}
	return v, rest
}

func plainVariables() map[string]variable {
	return map[string]variable{
		"host":           func(x *filter.Exchange, _ string) string { return bracketed(x.Request.Host) },
		"remote_addr":    func(x *filter.Exchange, _ string) string { return x.ClientIP },
		"scheme":         func(x *filter.Exchange, _ string) string { return x.Request.Scheme },
		"uri":            func(x *filter.Exchange, _ string) string { return x.Request.Path },
		"request_uri":    requestURI,
		"request_method": func(x *filter.Exchange, _ string) string { return x.Request.Method },
		"request_id":     func(x *filter.Exchange, _ string) string { return x.RequestID },
		"time_iso8601":   func(x *filter.Exchange, _ string) string { return x.Start.Format(time.RFC3339) },
		"args":           func(x *filter.Exchange, _ string) string { return x.Request.RawQuery },
		"query_string":   func(x *filter.Exchange, _ string) string { return x.Request.RawQuery },
		"is_args":        isArgs,
		"content_length": contentLength,
		"content_type":   func(x *filter.Exchange, _ string) string { return x.Request.Header.Get("Content-Type") },
		"server_port": func(x *filter.Exchange, _ string) string {
			return x.Stream.Conn().Port
		},
		"server_protocol": func(x *filter.Exchange, _ string) string { return x.Request.Version.String() },
		// The chain of addresses is already on the request, the peer's at its end.
		"proxy_add_x_forwarded_for": func(x *filter.Exchange, _ string) string {
			if chain := x.Request.Header.Get("X-Forwarded-For"); chain != "" {
				return chain
			}
			return x.ClientIP
		},
	}
}

func prefixedVariables() map[string]variable {
	return map[string]variable{"http_": headerValue, "arg_": argument, "cookie_": cookie}
}

func requestURI(x *filter.Exchange, _ string) string {
	if strings.HasPrefix(x.Request.Target, "/") {
		return x.Request.Target
	}
	if x.Request.HasQuery {
		return x.Request.Path + "?" + x.Request.RawQuery
	}
	return x.Request.Path
}

func isArgs(x *filter.Exchange, _ string) string {
	if x.Request.RawQuery == "" {
		return ""
	}
	return "?"
}

func contentLength(x *filter.Exchange, _ string) string {
	if x.Request.Body == nil || x.Request.Length == message.Unknown {
		return ""
	}
	return strconv.FormatInt(x.Request.Length, 10)
}

// headerValue is the field whose name, in lower case and with _ for -, is the argument.
func headerValue(x *filter.Exchange, name string) string {
	if name == "host" {
		return x.Request.Authority
	}
	return x.Request.Header.Get(name)
}

// argument is the value of the first query parameter of that name, as it was sent.
func argument(x *filter.Exchange, name string) string {
	for rest := x.Request.RawQuery; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		if key, value, _ := strings.Cut(pair, "="); strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

// cookie is the value of the first cookie of that name.
func cookie(x *filter.Exchange, name string) string {
	for field, value := range x.Request.Header.All() {
		if !strings.EqualFold(field, "Cookie") {
			continue
		}
		for rest := value; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, ";")
			if key, v, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && key == name {
				return v
			}
		}
	}
	return ""
}

// parseTemplate splits text at its variables: $name, ${name} and ${name:default}. A $ before anything else stands for itself,
// $$ for one $.
func parseTemplate(text string) (template, error) {
	if bad := strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); bad >= 0 {
		return nil, fmt.Errorf("the value has a control character at byte %d", bad)
	}
	var t template
	for text != "" {
		dollar := strings.IndexByte(text, '$')
		if dollar < 0 || dollar == len(text)-1 {
			return t.literal(text), nil
		}
		t = t.literal(text[:dollar])
		text = text[dollar+1:]
		p, rest, err := parseVariable(text)
		if err != nil {
			return nil, err
		}
		text = rest
		if p.variable == nil {
			t = t.literal(p.text)
			continue
		}
		t = append(t, p)
	}
	return t, nil
}

// parseVariable reads what follows a $.
func parseVariable(text string) (p piece, rest string, err error) {
	var name, fallback string
	switch text[0] {
	case '$':
		return piece{text: "$"}, text[1:], nil
	case '{':
		end := strings.IndexByte(text, '}')
		if end < 0 {
			return piece{}, "", fmt.Errorf("a ${ has no }: $%s", text)
		}
		name, fallback, _ = strings.Cut(text[1:end], ":")
		rest = text[end+1:]
	default:
		end := 0
		for end < len(text) && variableByte(text[end]) {
			end++
		}
		if end == 0 {
			return piece{text: "$"}, text, nil
		}
		name, rest = text[:end], text[end:]
	}
	v, argument := named(name)
	if v == nil {
		return piece{}, "", fmt.Errorf("there is no variable $%s; %s", name, suggest(name, variableNames()))
	}
	return piece{text: fallback, variable: v, argument: argument}, rest, nil
}

func variableNames() []string {
	names := keys(plainVariables())
	for _, prefix := range keys(prefixedVariables()) {
		names = append(names, prefix+"NAME")
	}
	return names
}

func variableByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func (t template) literal(text string) template {
	if text == "" {
		return t
	}
	if last := len(t) - 1; last >= 0 && t[last].variable == nil {
		t[last].text += text
		return t
	}
	return append(t, piece{text: text})
}

func (t template) expand(x *filter.Exchange) string {
	if len(t) == 1 {
		return t[0].expand(x)
	}
	var b strings.Builder
	for i := range t {
		b.WriteString(t[i].expand(x))
	}
	return b.String()
}

func (p *piece) expand(x *filter.Exchange) string {
	if p.variable == nil {
		return p.text
	}
	if value := p.variable(x, p.argument); value != "" {
		return value
	}
	return p.text
}
