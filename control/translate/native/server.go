package native

import "sluice.dev/sluice/model"

// Server translates one server. It does not change s.
func Server(s *model.HTTPServer, services Services) *FromServer { panic("to come") }

// Pipeline translates one pipeline. It does not change p.
func Pipeline(p *model.Pipeline, services Services) *FromPipeline { panic("to come") }

// Missing says which of the pipelines that servers name are not there; their paths answer 503.
func Missing(backends []Backend, exists func(pipeline string) bool, known []string) []model.Problem {
	panic("to come")
}

// Conflicts says which servers cannot listen since one named before them, in the order given, has their address and port.
func Conflicts(servers []*model.HTTPServer) map[*model.HTTPServer]model.Problem { panic("to come") }
