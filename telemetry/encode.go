package telemetry

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// appendCombined appends r in the combined log format of Apache and nginx, followed by what Sluice adds: request time in seconds, reason,
// server, origin, upstream, endpoint, request id.
func appendCombined(b []byte, r *Record) []byte {
	b = appendEscaped(b, orDash(r.ClientIP))
	b = append(b, " - - ["...)
	b = r.Time.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, `] "`...)
	b = appendEscaped(b, r.Method)
	b = append(b, ' ')
	b = appendEscaped(b, r.URI)
	b = append(b, ' ')
	b = appendEscaped(b, r.Version)
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, r.Written, 10)
	for _, text := range [...]string{r.Referer, r.UserAgent} {
		b = append(b, ` "`...)
		b = appendEscaped(b, orDash(text))
		b = append(b, '"')
	}
	b = append(b, ' ')
	b = appendSeconds(b, r.Took)
	b = append(b, ' ')
	b = append(b, r.Reason...)
	for _, text := range [...]string{r.Host, r.Server, r.Origin, r.Upstream, r.Endpoint, r.RequestID} {
		b = append(b, ` "`...)
		b = appendEscaped(b, orDash(text))
		b = append(b, '"')
	}
	return append(b, '\n')
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// appendJSON appends r as one JSON object; docs/guide/operations.md lists its fields.
func appendJSON(b []byte, r *Record) []byte {
	b = append(b, `{"time":"`...)
	b = r.Time.UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, `","status":`...)
	b = strconv.AppendInt(b, int64(r.Status), 10)
	b = appendText(b, "reason", r.Reason)
	b = appendText(b, "client_ip", r.ClientIP)
	b = appendText(b, "peer", r.Peer)
	b = appendText(b, "method", r.Method)
	b = appendText(b, "host", r.Host)
	b = appendText(b, "uri", r.URI)
	b = appendText(b, "version", r.Version)
	b = append(b, `,"seconds":`...)
	b = appendSeconds(b, r.Took)
	b = appendNumber(b, "bytes_in", r.Read)
	b = appendNumber(b, "bytes_out", r.Written)
	b = appendText(b, "server", r.Server)
	b = appendText(b, "origin", r.Origin)
	b = appendText(b, "upstream", r.Upstream)
	b = appendText(b, "endpoint", r.Endpoint)
	if r.Attempts > 0 {
		b = appendNumber(b, "attempts", int64(r.Attempts))
		b = appendNumber(b, "upstream_status", int64(r.UpstreamStatus))
		b = append(b, `,"upstream_seconds":`...)
		b = appendSeconds(b, r.UpstreamWait)
	}
	b = appendText(b, "request_id", r.RequestID)
	b = appendText(b, "user_agent", r.UserAgent)
	b = appendText(b, "referer", r.Referer)
	b = appendText(b, "tls_version", r.TLSVersion)
	b = appendText(b, "server_name", r.ServerName)
	return append(b, "}\n"...)
}

func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendFloat(b, d.Seconds(), 'f', 6, 64)
}

func appendNumber(b []byte, name string, n int64) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return strconv.AppendInt(b, n, 10)
}

func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, `":"`...)
	return append(appendEscapedJSON(b, text), '"')
}

const hex = "0123456789abcdef"

// appendEscaped escapes what could end a field or a line, or speak to a terminal, as \xHH.
func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

// appendEscapedJSON writes s so that the line is valid JSON and UTF-8 whatever bytes s has.
func appendEscapedJSON(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(b, `\ufffd`...)
			} else if r < 0xa0 || r == '\u2028' || r == '\u2029' { // C1 controls speak to terminals too
				b = append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
			} else {
				b = append(b, s[i:i+size]...)
			}
			i += size
			continue
		}
		i++
	}
	return b
}
