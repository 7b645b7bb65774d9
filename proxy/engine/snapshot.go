package engine

import (
	"sync/atomic"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
	"sluice.dev/sluice/proxy/certs"
	"sluice.dev/sluice/proxy/filter"
	"sluice.dev/sluice/proxy/filters"
	"sluice.dev/sluice/proxy/message"
	"sluice.dev/sluice/proxy/route"
	"sluice.dev/sluice/proxy/wire/h1"
	"sluice.dev/sluice/telemetry"
)

// Snapshot is what one Config became: all that a request needs, consistent in itself and never written again. Two snapshots
// share what did not change.
type Snapshot struct {
	Generation uint64
	Config     *model.Config

	servers  []*server // as Config.Servers
	slots    []*server // by socket; nil where a socket has none
	ruleSets map[string]*ruleSet
	tlsSets  map[string]*certs.Set
	chains   persist.Map[*chain]
}

// server is an HTTPServer as it runs.
type server struct {
	name    string
	spec    *model.HTTPServer
	key     string // of its socket
	conns   *conns // nil until its socket is bound
	rules   *ruleSet
	tls     *certs.Set
	wire    *h1.Settings
	allow   *filters.IPFilter
	broken  bool  // its IP filter cannot be built: it lets nobody in
	maxBody int64 // bytes; 0 and less: no limit
	max     int64 // connections
	metrics *telemetry.Server
}

// ruleSet is a RuleSet as it runs; servers may share it.
type ruleSet struct {
	spec  *model.RuleSet
	table *route.Table[*target]
}

// target is what the engine keeps for a path of a rule.
type target struct {
	rule, path *filters.IPFilter
	headers    *filters.Headers
	maxBody    int64 // 0: the server's
	broken     bool  // something that would keep requests out cannot be built: none is let in
	pipeline   string
	origin     string
	counter    atomic.Pointer[telemetry.Origin] // made on first traffic
}

// chain is a Pipeline as it runs.
type chain struct {
	*filter.Chain
	spec      *model.Pipeline
	upstreams []string // that its filters asked for
	problems  []model.Problem
}

// defaultMaxBody is the body limit of an HTTPServer that says none, as in the seeds.
const defaultMaxBody = 4 << 20

// chain finds the chain of a pipeline; nil when there is no such pipeline.
func (s *Snapshot) chain(pipeline string) *chain {
	c, _ := s.chains.Get(pipeline)
	return c
}

// lookup routes a request. It does not allocate.
func (r *ruleSet) lookup(q *route.Request) route.Found[*target] {
	if r == nil {
		return route.Found[*target]{Reason: message.HostNotFound}
	}
	return r.table.Lookup(q)
}
