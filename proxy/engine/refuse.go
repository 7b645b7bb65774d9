package engine

import (
	"crypto/tls"

	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/wire/h1"
	"sluice.dev/sluice/telemetry"
)

// refuse words the answer to a request that never became an exchange, and counts and logs it like one.
func (c *conns) refuse(conn *message.Conn, why *h1.Refusal) *message.Response {
	e := c.engine
	_, server := c.current()
	r := &message.Response{Status: why.Reason.Status(), Version: message.HTTP11}
	id, method, accept := newRequestID(), "", ""
	if q := why.Request; q != nil {
		method, accept = q.Method, q.Header.Get("Accept")
	}
	new(page).dress(r, method, accept, id)
	if why.Reason == message.MethodRefused {
		r.Header.Add("Allow", methods)
	}
	r.Header.AddField(message.Field{ID: message.XRequestID, Name: message.XRequestID.Name(), Value: id})
	e.accountRefusal(server, conn, why, id)
	return r
}

func (e *Engine) accountRefusal(s *server, conn *message.Conn, why *h1.Refusal, id string) {
	took := e.settings.Now().Sub(why.Start)
	s.metrics.Done(why.Reason.Status(), why.Reason.String(), took, 0, 0)
	if e.settings.AccessLog == nil {
		return
	}
	record := telemetry.Record{
		Time: why.Start, Took: took, ClientIP: conn.Peer, Peer: conn.Peer, Status: why.Reason.Status(), Reason: why.Reason.String(),
		Server: s.name, RequestID: id,
	}
	if q := why.Request; q != nil {
		record.Method, record.Host, record.URI = q.Method, q.Authority, q.Target
		record.UserAgent, record.Referer = q.Header.Get("User-Agent"), q.Header.Get("Referer")
		if q.Version != 0 {
			record.Version = q.Version.String()
		}
	}
	if conn.TLS != nil {
		record.TLSVersion, record.ServerName = tlsName(conn.TLS.Version), conn.TLS.ServerName
	}
	e.settings.AccessLog.Write(&record)
}

func tlsName(version uint16) string {
	switch version {
	case tls.VersionTLS12:
		return "TLSv1.2"
	case tls.VersionTLS13:
		return "TLSv1.3"
	}
	return tls.VersionName(version)
}
