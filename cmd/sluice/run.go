package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"sluice.dev/sluice/admin"
	"sluice.dev/sluice/control/loop"
	"sluice.dev/sluice/control/source/dir"
	"sluice.dev/sluice/control/source/kube"
	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/proxy/engine"
	"sluice.dev/sluice/proxy/filters"
	"sluice.dev/sluice/telemetry"
)

// server is everything that runs under serve.
type server struct {
	options *options
	log     *slog.Logger
	metrics *telemetry.Metrics
	access  *telemetry.AccessLog
	engine  *engine.Engine
	store   *store.Store
	source  *dir.Source  // nil: no files are read
	cluster *kube.Source // nil: no API server is read
	writer  *kube.Writer // to that API server
	loop    *loop.Loop
	says    *reporter
	objects translate.Options
	memory  *memory
}

// serve runs until it is told to end. The error says how it ended.
func serve(ctx context.Context, o *options, p *plan, s streams) error {
	signal.Ignore(syscall.SIGPIPE) // a reader of the logs that has gone must not end the program
	l := openLogs(o, s)
	defer l.lines.close()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	sv, err := newServer(o, p, l)
	if err != nil {
		return err
	}
	l.log.Info("starting", "version", version(), "paths", strings.Join(p.paths, ","))
	if len(o.ignored) > 0 {
		l.log.Info("keys of the server file that this version does nothing with", "file", o.configFile, "keys", strings.Join(o.ignored, ","))
	}
	return sv.run(ctx, signals)
}

func newServer(o *options, p *plan, l *logs) (*server, error) {
	s := &server{options: o, log: l.log, metrics: telemetry.New(), memory: newMemory()}
	s.says = &reporter{log: l.log, view: func() store.View { return s.loop.View() }}
	if o.accessLog != off {
		var err error
		if s.access, err = telemetry.NewAccessLog(l.access, o.accessLog, s.metrics.AccessLogDropped); err != nil {
			return nil, wrong("%w", err)
		}
	}
	trusted, err := o.trustedNetworks()
	if err != nil {
		return nil, wrong("--trusted-proxies: %w", err)
	}
	settings := engine.Settings{Log: l.log, Metrics: s.metrics, TrustedProxies: trusted}
	if s.access != nil {
		settings.AccessLog = s.access
	}
	s.engine = engine.New(settings)
	synced, err := s.sources(p)
	if err != nil {
		return nil, err
	}
	s.objects = translateOptions(o, p.implicit)
	if p.cluster != nil {
		s.objects.APIServers = p.cluster.apiServers()
	}
	s.loop = loop.New(loop.Settings{
		Store: s.store, Synced: synced, Translator: translate.New(s.objects), Apply: s.engine.Apply,
		Report: s.report, Log: l.log, Metrics: s.metrics,
	})
	return s, nil
}

// sources makes where objects come from. The channels are closed when they have been read.
func (s *server) sources(p *plan) (synced []<-chan struct{}, err error) {
	s.store = store.New(sourceFiles, sourceCluster)
	if len(p.paths) > 0 {
		if s.source, err = dir.New(dir.Settings{Name: sourceFiles, Paths: p.paths, Store: s.store, Log: s.log}); err != nil {
			return nil, wrong("%w", err)
		}
		synced = append(synced, s.source.Synced())
	}
	if p.cluster == nil {
		return synced, nil
	}
	if s.cluster, err = p.cluster.source(s.store, s.log); err != nil {
		return nil, err
	}
	if s.writer, err = p.cluster.writer(s.cluster, s.serving, s.log); err != nil {
		return nil, err
	}
	s.metrics.Source(sourceCluster, s.cluster.Stale)
	return append(synced, s.cluster.Synced()), nil
}

// report tells what a batch said and what became of it: to the log, and to the API server.
func (s *server) report(translated *status.Report, outcome model.Outcome) {
	now := s.says.report(translated, outcome)
	s.memory.fit(s.loop.View())
	if s.writer != nil {
		s.writer.Report(now, s.loop.View())
	}
}

// translateOptions are what the flags say about objects.
func translateOptions(o *options, implicit []*model.IngressController) translate.Options {
	return translate.Options{Controllers: implicit, Pinned: o.pinned(), PublicHTTPSPort: int(o.publicPort), ExternalNames: o.externals, CheckPipeline: filters.Check}
}

// run starts every part and ends them in the opposite order.
func (s *server) run(ctx context.Context, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer s.access.Close()
	defer s.engine.Close()
	defer parts.Wait()
	defer cancel()
	if s.source != nil {
		parts.Go(func() {
			if err := s.source.Run(ctx); err != nil {
				s.log.Error("reading files ended", "error", err)
			}
		})
	}
	if s.cluster != nil {
		parts.Go(func() { s.cluster.Run(ctx) })
		parts.Go(func() { s.writer.Run(ctx) })
	}
	parts.Go(func() { s.loop.Run(ctx) })
	if s.options.api != off {
		api := &admin.Server{Address: s.options.api, Handler: s.admin(), Log: s.log}
		parts.Go(func() { api.Run(ctx) })
	}
	select {
	case got := <-signals:
		s.log.Info("draining", "signal", got.String())
	case <-ctx.Done():
		return nil
	}
	return s.drain(ctx, signals)
}

// drain lets what is in flight finish; a second signal ends the wait.
func (s *server) drain(ctx context.Context, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case got := <-signals:
			s.log.Info("ending at once", "signal", got.String())
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := s.engine.Drain(ctx); err != nil {
		s.log.Warn("ended with a cut", "error", err)
		return &failure{exitFailed, fmt.Errorf("end: %w", err)}
	}
	s.log.Info("ended, everything in flight was finished")
	return nil
}

// admin is the handler of the admin address.
func (s *server) admin() http.Handler {
	explainer := &admin.Explainer{Engine: s.engine, View: s.loop.View, Options: s.objects, Problems: s.says.all}
	return admin.New(admin.Settings{
		Log: s.log, Metrics: s.metrics.Registry(), Ready: s.ready, Explain: explainer.Explain, Problems: s.says.problems,
		Config: func() []byte { return model.Dump(s.engine.Snapshot().Config) },
	})
}
