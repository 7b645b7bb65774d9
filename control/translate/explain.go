package translate

import (
	"strings"

	"sluice.dev/sluice/canon"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate/ingress"
	"sluice.dev/sluice/model"
)

// ExplainRequest is a request and the path that takes it.
type ExplainRequest struct {
	Host  string
	Path  string
	Route string // object and field of the path, as model.Origin writes them; "" when no path takes the request
}

// Unserved says which Ingresses of files no controller serves, and why. It stands in no report: another process may serve them.
func Unserved(view store.View, o Options) []model.Problem {
	return ingress.Unserved(view, o.controllers(view))
}

// Explain says what the objects behind the path that takes a request say, in the steps class, service, port and endpoints. It ends at the
// first that fails, with the object and field to mend. Without a path, it says which Ingress would take the request if it were
// served.
func Explain(view store.View, o Options, r ExplainRequest) []model.Step {
	controllers := o.controllers(view)
	reach := ingress.NewReach(view, o.policy(controllers))
	route, ok := parseOrigin(r.Route)
	switch {
	case !ok:
		host, _ := canon.Host(r.Host)
		path, _ := canon.Path(r.Path)
		return ingress.ExplainUnrouted(view, controllers, host, path)
	case route.Key.Kind == store.KindIngress:
		return ingress.Explain(reach, controllers, route)
	case route.Key.Kind == model.KindIngressController:
		for _, c := range controllers {
			if ref, ok := ingress.ParseRef(c.DefaultBackend); ok && c.Name == route.Key.Name {
				return reach.ExplainService(ref, route, false)
			}
		}
	case route.Key.Kind == model.KindHTTPServer:
		return explainServer(view, reach, route)
	}
	return nil
}

// parseOrigin is the reverse of model.Origin.String.
func parseOrigin(text string) (model.Origin, bool) {
	kind, rest, found := strings.Cut(text, " ")
	path, field, _ := strings.Cut(rest, " ")
	key := model.Key{Kind: kind, Name: path}
	if namespace, name, found := strings.Cut(path, "/"); found {
		key.Namespace, key.Name = namespace, name
	}
	return model.Origin{Key: key, Field: field}, found && key.Name != ""
}

// explainServer follows a path of an HTTPServer to the Services that its pipeline names.
func explainServer(view store.View, reach *ingress.Reach, route model.Origin) []model.Step {
	s, found := store.Get[*model.HTTPServer](view, route.Key)
	if !found {
		return nil
	}
	if route.Field == "fallback" {
		return explainPipeline(view, reach, s.Fallback)
	}
	for _, rule := range s.Rules {
		if rule == nil {
			continue
		}
		for _, path := range rule.Paths {
			if path == nil || path.Origin.Field != route.Field {
				continue
			}
			if path.BackendPool != nil {
				return explainPool(reach, path.BackendPool, model.Origin{Key: route.Key, Field: route.Field + ".backendPool"})
			}
			return explainPipeline(view, reach, path.Backend)
		}
	}
	return nil
}

func explainPipeline(view store.View, reach *ingress.Reach, name string) []model.Step {
	p, found := store.Get[*model.Pipeline](view, model.Key{Kind: model.KindPipeline, Name: name})
	if !found {
		return nil
	}
	for _, f := range p.Filters {
		if f.Proxy != nil && len(f.Proxy.Pools) > 0 && f.Proxy.Pools[0] != nil {
			return explainPool(reach, f.Proxy.Pools[0], model.Origin{Key: p.Origin.Key, Field: "filters[" + f.Name + "].pools[0]"})
		}
	}
	return nil
}

func explainPool(reach *ingress.Reach, pool *model.Pool, at model.Origin) []model.Step {
	ref, ok := ingress.ParseRef(pool.Service)
	if !ok {
		return nil
	}
	at.Field += ".service"
	return reach.ExplainService(ref, at, false)
}
