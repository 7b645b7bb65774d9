package native

import (
	"sluice.dev/sluice/model"
)

// Services returns the name of the upstream for a Service, "namespace/name:port" as a pool names it, with that load balance. The
// caller sees to it that the Config has that upstream; a Service that does not exist has one without endpoints. Problems are
// for the object at the origin.
type Services func(service string, balance model.LoadBalance, at model.Origin) (upstream string, problems []model.Problem)

// FromServer is what one HTTPServer object becomes.
type FromServer struct {
	Server       *model.HTTPServer // without rules and keys, which stand in the parts below; nil when it has no port
	RuleSet      *model.RuleSet
	TLSSet       *model.TLSSet // nil without https
	Certificates []*model.Certificate
	Pipelines    []*model.Pipeline // of the pools that its paths hold
	Upstreams    []*model.Upstream
	Backends     []Backend       // the pipelines that it names
	Services     []string        // the Services that its pools name, ordered
	Problems     []model.Problem // those of Validate included; not those of Missing and Conflicts
}

// FromPipeline is what one Pipeline object becomes.
type FromPipeline struct {
	Pipeline  *model.Pipeline // every pool names an upstream
	Upstreams []*model.Upstream
	Services  []string
	Problems  []model.Problem // those of Validate included
}

// Backend is a pipeline and where it is named.
type Backend struct {
	Pipeline string
	At       model.Origin
}
