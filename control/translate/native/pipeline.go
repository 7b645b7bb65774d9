package native

import (
	"fmt"
	"maps"
	"slices"

	"sluice.dev/sluice/model"
)

// Pipeline translates one pipeline. It does not change p.
func Pipeline(p *model.Pipeline, services Services) *FromPipeline {
	t := &FromPipeline{Problems: p.Validate()}
	w := &work{services: services}
	copied := *p
	copied.Filters = slices.Clone(p.Filters)
	for i := range copied.Filters {
		f := &copied.Filters[i]
		if f.Proxy == nil {
			continue
		}
		proxy := *f.Proxy
		proxy.Pools = slices.Clone(proxy.Pools)
		for j, pool := range proxy.Pools {
			if pool == nil {
				continue
			}
			name := fmt.Sprintf("%s/%s/%s", model.KindPipeline, p.Name, f.Name)
			if j > 0 {
				name += fmt.Sprintf("/%d", j)
			}
			proxy.Pools[j] = w.pool(name, pool, within(p.Origin, fmt.Sprintf("filters[%d].pools[%d]", i, j)))
		}
		f.Proxy = &proxy
	}
	t.Pipeline, t.Upstreams, t.Services = &copied, w.upstreams, w.sortedServices()
	t.Problems = append(t.Problems, w.problems...)
	return t
}

// work gathers what comes of the pools of one object.
type work struct {
	services  Services
	pipelines []*model.Pipeline
	upstreams []*model.Upstream
	named     map[string]bool
	problems  []model.Problem
}

func (w *work) sortedServices() []string { return slices.Sorted(maps.Keys(w.named)) }

// generate makes the pipeline that does nothing but forward to a pool.
func (w *work) generate(name string, pool *model.Pool, at model.Origin) {
	w.pipelines = append(w.pipelines, &model.Pipeline{
		Meta:    model.Meta{Kind: model.KindPipeline, Name: name},
		Filters: []model.Filter{{Name: "proxy", Kind: model.KindProxy, Proxy: &model.Proxy{Pools: []*model.Pool{w.pool(name, pool, at)}}}},
		Origin:  at,
	})
}

// pool returns the pool as the engine runs it: it names an upstream, which has its servers and its load balance.
func (w *work) pool(name string, pool *model.Pool, at model.Origin) *model.Pool {
	p := *pool
	balance := loadBalance(pool)
	p.LoadBalance, p.Servers = nil, nil
	if pool.Service != "" {
		if upstream, ok := w.service(pool.Service, balance, within(at, "service")); ok {
			p.Service = upstream
			return &p
		}
	}
	u := &model.Upstream{Name: name, Origin: at, LoadBalance: balance}
	if pool.Service == "" {
		u.Endpoints = endpoints(pool)
	} else {
		u.Reason, u.Detail = "service_missing", at.String()+".service"
	}
	w.upstreams = append(w.upstreams, u)
	p.Service = name
	return &p
}

func (w *work) service(service string, balance model.LoadBalance, at model.Origin) (upstream string, ok bool) {
	if _, _, _, ok := model.ParseService(service); !ok {
		w.problems = append(w.problems, model.Problem{
			Origin: at, Reason: "InvalidService", Severity: model.Error,
			Message: fmt.Sprintf("%.80q names no Service", service), Mend: "write namespace/name:port",
		})
		return "", false
	}
	if w.named == nil {
		w.named = map[string]bool{}
	}
	w.named[service] = true
	upstream, problems := w.services(service, balance, at)
	w.problems = append(w.problems, problems...)
	return upstream, true
}

// endpoints are the servers of a pool whose URLs can be used, by address.
func endpoints(pool *model.Pool) []model.Endpoint {
	var all []model.Endpoint
	taken := map[string]bool{}
	for i := range pool.Servers {
		e, ok := pool.Servers[i].Endpoint()
		if !ok || taken[e.Address] {
			continue
		}
		taken[e.Address] = true
		if pool.SetUpstreamHost {
			e.KeepHost = false
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b model.Endpoint) int {
		if a.Address < b.Address {
			return -1
		}
		return 1
	})
	return all
}

// loadBalance is what the pool asks for, as far as it can be had; with weights, the default policy is weighted.
func loadBalance(pool *model.Pool) model.LoadBalance {
	var b model.LoadBalance
	if pool.LoadBalance != nil {
		b = *pool.LoadBalance
	}
	if !b.Known() {
		b = model.LoadBalance{}
	}
	weighted := slices.ContainsFunc(pool.Servers, func(s model.Server) bool { return s.Weight > 0 })
	if weighted && (b.Policy == "" || b.Policy == "roundRobin") {
		b.Policy = "weighted"
	}
	return b
}
