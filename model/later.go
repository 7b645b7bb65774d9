package model

import "reflect"

// laterField says what a field does that the objects of this family have and this version has not. Leaving it out is an error
// where something else would be served, or to somebody else, and a warning where the same is served in a plainer way.
func laterField(in reflect.Type, field string) (what string, severity Severity, known bool) {
	var fields map[string]later
	switch in {
	case reflect.TypeFor[HTTPServer]():
		fields = laterServer()
	case reflect.TypeFor[Pipeline]():
		fields = laterPipeline()
	case reflect.TypeFor[FlowNode]():
		fields = map[string]later{"namespace": {"several requests in one pipeline", Error}}
	case reflect.TypeFor[Proxy]():
		fields = laterProxy()
	case reflect.TypeFor[Pool]():
		fields = laterPool()
	case reflect.TypeFor[LoadBalance]():
		fields = laterBalance()
	}
	l, known := fields[field]
	return l.what, l.severity, known
}

type later struct {
	what     string
	severity Severity
}

func laterServer() map[string]later {
	return map[string]later{
		"http3":           {"HTTP/3", Error},
		"autoCert":        {"certificates by ACME", Error},
		"globalFilter":    {"filters around all pipelines", Error},
		"tracing":         {"traces", Warning},
		"accessLogFormat": {"access-log templates; --access-log combined or json", Warning},
	}
}

func laterPipeline() map[string]later {
	return map[string]later{
		"resilience": {"retry and circuit-breaker policies; the proxy retries where that is safe and leaves out servers that fail", Warning},
		"data":       {"data for templates", Error},
	}
}

func laterProxy() map[string]later {
	return map[string]later{
		"mirrorPool":          {"copies of requests for another pool", Warning},
		"compression":         {"compression of responses", Warning},
		"mtls":                {"TLS to servers", Error},
		"maxIdleConns":        {"a limit of idle connections", Warning},
		"maxIdleConnsPerHost": {"a limit of idle connections", Warning},
		"maxRedirection":      {"following redirects of servers", Error},
		"serverMaxBodySize":   {"a limit of response bodies, which are streamed", Warning},
	}
}

func laterPool() map[string]later {
	return map[string]later{
		"spanName":             {"traces", Warning},
		"serverTags":           {"choosing servers by tag", Error},
		"serviceName":          {"service registries", Error},
		"serviceRegistry":      {"service registries", Error},
		"memoryCache":          {"a cache of responses", Warning},
		"filter":               {"pools for some of the requests", Error},
		"serverMaxBodySize":    {"a limit of response bodies, which are streamed", Warning},
		"retryPolicy":          {"retry policies; the proxy retries where that is safe", Warning},
		"circuitBreakerPolicy": {"circuit breakers; the proxy leaves out servers that fail", Warning},
		"healthCheck":          {"health checks; the proxy leaves out servers that fail", Warning},
	}
}

func laterBalance() map[string]later {
	return map[string]later{
		"stickySession": {"sessions that keep to a server; use ipHash or headerHash", Error},
		"forwardKey":    {"servers named by a header field", Error},
		"healthCheck":   {"health checks; the proxy leaves out servers that fail", Warning},
	}
}

// laterPolicy reports whether the family has that load-balance policy and this version has not.
func laterPolicy(policy string) bool { return policy == "cookieHash" || policy == "forward" }
