package upstream

import (
	"sort"
	"time"
)

// Status is what a pool looks like now, for operators.
type Status struct {
	Name      string           `json:"name"`
	Policy    string           `json:"policy"`
	Reason    string           `json:"reason,omitempty"` // why nothing can be sent
	Detail    string           `json:"detail,omitempty"`
	Endpoints []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is what one endpoint looks like now.
type EndpointStatus struct {
	Address     string     `json:"address"`
	Name        string     `json:"name,omitempty"` // the host name that has the address
	Weight      int        `json:"weight"`
	Terminating bool       `json:"terminating,omitempty"`
	Ejected     *time.Time `json:"ejectedUntil,omitempty"`
	Broken      int        `json:"broken"` // exchanges in a row without a response
	Failed      int        `json:"failed"` // responses with a failure code in a row
	InFlight    int64      `json:"inFlight"`
	Idle        int        `json:"idleConnections"`
}

// Status returns the status of all pools, by name.
func (p *Pools) Status() []Status {
	pools := p.all()
	sort.Slice(pools, func(i, j int) bool { return pools[i].name < pools[j].name })
	all := make([]Status, len(pools))
	for i, pool := range pools {
		all[i] = pool.Status()
	}
	return all
}

// Status returns what the pool looks like now.
func (p *Pool) Status() Status {
	now := p.settings.Now()
	s := p.current.Load()
	status := Status{Name: p.name, Policy: s.policy, Detail: s.detail, Endpoints: make([]EndpointStatus, 0, len(s.members))}
	if len(s.members) == 0 {
		status.Reason = s.reason.String()
	}
	for _, m := range s.members {
		e := EndpointStatus{
			Address: m.address, Name: m.name, Weight: m.weight, Terminating: m.terminating,
			Broken: int(m.broken.Load()), Failed: int(m.failed.Load()), InFlight: m.inFlight.Load(), Idle: m.idle.len(),
		}
		if m.ejectedAt(p.settings.clock(now)) {
			end := p.settings.began.Add(time.Duration(m.until.Load()))
			e.Ejected = &end
		}
		status.Endpoints = append(status.Endpoints, e)
	}
	return status
}
