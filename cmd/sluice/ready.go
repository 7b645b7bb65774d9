package main

import (
	"fmt"
	"strings"

	"sluice.dev/sluice/admin"
	"sluice.dev/sluice/model"
)

// ready says whether traffic is welcome. A server of a controller that cannot listen keeps it away; one that an HTTPServer object
// asks for does not, since one bad object must not take the others away.
func (s *server) ready() admin.Readiness {
	var r admin.Readiness
	if s.engine.Draining() {
		r.Waiting = append(r.Waiting, "draining: the process is about to end")
	}
	if s.cluster != nil {
		waiting, degraded := s.cluster.Ready()
		r.Waiting, r.Degraded = append(r.Waiting, waiting...), append(r.Degraded, degraded...)
	}
	if s.source != nil && !isClosed(s.source.Synced()) {
		r.Waiting = append(r.Waiting, "the manifests are being read")
	} else if len(r.Waiting) == 0 && !isClosed(s.loop.Ready()) {
		r.Waiting = append(r.Waiting, "the first config is being applied")
	}
	ofController := map[string]bool{}
	for _, spec := range s.engine.Snapshot().Config.Servers {
		ofController[spec.Name] = spec.Origin.Key.Kind == model.KindIngressController
	}
	for _, b := range s.engine.Binds() {
		if b.Bound {
			continue
		}
		text := fmt.Sprintf("server %s cannot listen on %s: %s", b.Server, b.Address, b.Error)
		if ofController[b.Server] {
			r.Waiting = append(r.Waiting, text)
		} else {
			r.Degraded = append(r.Degraded, text)
		}
	}
	return r
}

// serving reports whether requests to a controller are taken: it listens wherever it is to, and the process is not about to end.
func (s *server) serving(controller string) bool {
	listens := false
	for _, b := range s.engine.Binds() {
		if strings.HasPrefix(b.Server, controller+"/") {
			if !b.Bound {
				return false
			}
			listens = true
		}
	}
	return listens && !s.engine.Draining()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
