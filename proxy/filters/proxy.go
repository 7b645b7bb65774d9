package filters

import (
	"fmt"
	"log/slog"
	"time"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/message"
)

// The results of kind Proxy, in the order of its Kind.Results.
const (
	proxyInternalError filter.Result = iota + 1
	proxyClientError
	proxyServerError
	proxyFailureCode
	proxyTimeout
	_ // shortCircuited: of the circuit breaker
)

// proxy is the forward step.
type proxy struct {
	upstream filter.Upstream
	options  filter.ForwardOptions
	log      *slog.Logger
}

func proxyKind() filter.Kind {
	return filter.Kind{
		Name:    model.KindProxy,
		Doc:     "Forwards the request to an upstream and makes its answer the response.",
		Results: []string{"internalError", "clientError", "serverError", "failureCode", "timeout", "shortCircuited"},
		Blocks:  false,
		Body:    filter.Stream,
		Decode: func(raw []byte) (any, error) {
			return nil, &FieldError{Message: "a Proxy is decoded with its pipeline"}
		},
		New: newProxy,
	}
}

func newProxy(spec any, env filter.Env) (filter.Filter, error) {
	pool := spec.(*model.Proxy).Pools[0]
	upstream := env.Upstream(pool.Service)
	if upstream == nil {
		return nil, &FieldError{"pools[0].service", fmt.Sprintf("there is no upstream %q", pool.Service), ""}
	}
	return &proxy{upstream: upstream, log: env.Log, options: filter.ForwardOptions{
		Timeout:      time.Duration(pool.Timeout),
		KeepHost:     !pool.SetUpstreamHost,
		FailureCodes: pool.FailureCodes,
	}}, nil
}

// Handle forwards. A response with a failure code stays the answer unless a later filter replaces it.
func (p *proxy) Handle(x *filter.Exchange) filter.Result {
	err := p.upstream.Forward(x, p.options)
	switch {
	case x.Response == nil:
		p.log.Error("an upstream gave neither a response nor a reply", "error", err)
		return filter.Reject(x, message.NoResponse, proxyInternalError)
	case err == nil && x.Reason == message.OK:
		if p.options.Failure(x.Response.Status) {
			x.Reason = message.FailureCode // the log names it, whoever's answer it is
			return proxyFailureCode
		}
		return filter.Next
	}
	return proxyResult(x.Reason)
}

func proxyResult(reason message.Reason) filter.Result {
	switch reason {
	case message.ConnectTimeout, message.UpstreamTimeout:
		return proxyTimeout
	case message.ClientGone, message.MalformedRequest, message.AmbiguousFraming, message.BadChunk, message.BodyTimeout,
		message.BodyTooLarge, message.HeadTooLarge:
		return proxyClientError
	case message.FilterBroken, message.NoResponse, message.Panicked:
		return proxyInternalError
	}
	return proxyServerError
}

// checkProxy says what is wrong with the pools of a Proxy whose servers may already have become an upstream.
func checkProxy(p *model.Proxy) (errs []error) {
	if p == nil || len(p.Pools) == 0 {
		return []error{&FieldError{"pools", "a Proxy needs a pool", "give it one with servers or a service"}}
	}
	if len(p.Pools) > 1 {
		errs = append(errs, &FieldError{"pools[1]", "a second pool has no filter that sends requests to it", "remove it"})
	}
	for i, pool := range p.Pools {
		at := fmt.Sprintf("pools[%d]", i)
		if pool == nil || len(pool.Servers) == 0 && pool.Service == "" {
			errs = append(errs, &FieldError{at, "a pool needs servers or a service", ""})
			continue
		}
		if pool.Timeout < 0 {
			errs = append(errs, &FieldError{at + ".timeout", "a timeout is not negative", "write it as 30s"})
		}
		for j, code := range pool.FailureCodes {
			if code < 100 || code > 599 {
				errs = append(errs, &FieldError{fmt.Sprintf("%s.failureCodes[%d]", at, j), fmt.Sprintf("%d is no status", code), "statuses are 100 to 599"})
			}
		}
	}
	return errs
}
