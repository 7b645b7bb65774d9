package main

import (
	"context"
	"log/slog"
	"net"
	"slices"

	"sluice.dev/sluice/admin"
	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/engine"
	"sluice.dev/sluice/proxy/upstream"
)

// trial is a config that was translated and compiled, but neither listens nor dials.
type trial struct {
	read    *loaded
	engine  *engine.Engine
	options translate.Options
	report  *status.Report
	outcome model.Outcome
}

// dryRun does with objects what serve would, without any connection.
func dryRun(l *loaded, o *options) *trial {
	t := &trial{read: l}
	var controllers []*model.IngressController
	if l.view.Len(model.KindIngressController) == 0 {
		controllers = o.standIn(l.cluster, l.lost)
	}
	t.options = translateOptions(o, controllers)
	t.options.APIServers = l.apiServers
	t.engine = engine.New(engine.Settings{Log: slog.New(slog.DiscardHandler), Listen: listenNowhere, DrainDelay: -1, Upstream: upstream.Settings{Offline: true}})
	var config *model.Config
	config, t.report = translate.Translate(l.view, t.options)
	t.outcome = t.engine.Apply(config)
	return t
}

func (t *trial) close() { t.engine.Close() }

// problems are those of reading, translating and compiling.
func (t *trial) problems() []model.Problem {
	return slices.Concat(t.read.problems, t.report.Problems(), status.Beyond(t.outcome.Problems, t.report))
}

func (t *trial) explain(q *admin.Question) []model.Step {
	e := admin.Explainer{Engine: t.engine, View: func() store.View { return t.read.view }, Options: t.options, Problems: t.problems}
	return e.Explain(q)
}

// nowhere is a listener that nobody can connect to.
type nowhere struct {
	addr   net.Addr
	closed context.Context
	close  context.CancelFunc
}

func listenNowhere(_ context.Context, network, address string) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr(network, address)
	if err != nil {
		return nil, err
	}
	closed, stop := context.WithCancel(context.Background())
	return &nowhere{addr, closed, stop}, nil
}

func (n *nowhere) Accept() (net.Conn, error) {
	<-n.closed.Done()
	return nil, net.ErrClosed
}

func (n *nowhere) Close() error {
	n.close()
	return nil
}

func (n *nowhere) Addr() net.Addr { return n.addr }
