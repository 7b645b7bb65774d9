package translate_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice.dev/sluice/control/status"
	"sluice.dev/sluice/control/store"
	"sluice.dev/sluice/control/translate"
	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// TestUpdateIsTranslate holds, after each of thousands of random changes, what a Translator that followed them says against what
// one says that sees the result only.
func TestUpdateIsTranslate(t *testing.T) {
	steps := 250
	if testing.Short() {
		steps = 60
	}
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { followChanges(t, seed, steps) })
	}
}

func followChanges(t *testing.T, seed uint64, steps int) {
	w := newWorld(t, seed)
	s := store.New("kube", "files")
	options := translate.Options{Controllers: []*model.IngressController{controller()}, CheckPipeline: oddPipelines}
	options.Controllers[0].AllowExternalNames = seed%2 == 0
	options.APIServers = []netip.AddrPort{netip.MustParseAddrPort("10.0.0.3:80")}
	follower, finder := translate.New(options), translate.New(options)
	before, _ := follower.Update(store.View{}, nil)
	for step := range steps {
		rebuilt := false
		for range 1 + w.random.IntN(3) {
			o, gone := w.object()
			rebuilt = rebuilt || o.Key.Kind == store.KindIngressClass || o.Key.Kind == model.KindIngressController
			switch {
			case gone:
				s.Apply("kube", nil, []model.Key{o.Key})
			case w.chance(20):
				s.ReplaceFile("files", o.Key.Kind+o.Key.Name, []*store.Object{o})
			default:
				s.Apply("kube", []*store.Object{o}, nil)
			}
		}
		view, changed := s.Take()
		config, report := follower.Update(view, changed)
		want, wantReport := translate.Translate(view, options)
		if diff := compareConfigs(want, config); diff != "" {
			t.Fatalf("step %d, after %v: the config is not that of Translate:\n%s", step, changed, diff)
		}
		if !reflect.DeepEqual(entriesOf(wantReport), entriesOf(report)) {
			t.Fatalf("step %d, after %v: the report is not that of Translate (-want +got):\n%s", step, changed, cmp.Diff(entriesOf(wantReport), entriesOf(report)))
		}
		if diff := newPointers(before, config, rebuilt); diff != "" {
			t.Fatalf("step %d, after %v: %s", step, changed, diff)
		}
		before = config
		if step%8 != 0 {
			continue
		}
		if found, foundReport := finder.Update(view, nil); compareConfigs(want, found) != "" || !reflect.DeepEqual(entriesOf(wantReport), entriesOf(foundReport)) {
			t.Fatalf("step %d: the translator that finds the changes itself differs", step)
		}
	}
}

func oddPipelines(p *model.Pipeline) []model.Problem {
	if p.Name == "p0" {
		return []model.Problem{{Origin: p.Origin, Reason: "Odd", Message: "odd"}}
	}
	return nil
}

func entriesOf(r *status.Report) []*status.Entry { return slices.Collect(r.All()) }

// compareConfigs says where two configs differ.
func compareConfigs(a, b *model.Config) string {
	if diff := cmp.Diff(a.Servers, b.Servers); diff != "" {
		return diff
	}
	for name := range union(a.RuleSets, b.RuleSets) {
		x, y := a.RuleSets[name], b.RuleSets[name]
		if x == nil || y == nil {
			return fmt.Sprintf("rule set %s: %v and %v", name, x, y)
		}
		if diff := firstNonEmpty(compareMaps(x.Hosts, y.Hosts), cmp.Diff(x.Fallback, y.Fallback), cmp.Diff(x.Rules, y.Rules), cmp.Diff(x.Kind, y.Kind)); diff != "" {
			return "rule set " + name + ": " + diff
		}
	}
	for name := range union(a.TLSSets, b.TLSSets) {
		x, y := a.TLSSets[name], b.TLSSets[name]
		if x == nil || y == nil {
			return fmt.Sprintf("TLS set %s: %v and %v", name, x, y)
		}
		if diff := firstNonEmpty(compareMaps(x.Entries, y.Entries), cmp.Diff(x.Default, y.Default)); diff != "" {
			return "TLS set " + name + ": " + diff
		}
	}
	return firstNonEmpty(compareMaps(a.Pipelines, b.Pipelines), compareMaps(a.Upstreams, b.Upstreams), compareMaps(a.Certificates, b.Certificates))
}

func union[V any](a, b map[string]V) map[string]bool {
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	return names
}

func firstNonEmpty(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func compareMaps[T any](a, b persist.Map[*T]) string {
	for name, pair := range persist.Diff(a, b) {
		if !reflect.DeepEqual(pair[0], pair[1]) { // cmp is slow
			return name + ": " + cmp.Diff(pair[0], pair[1], cmpopts.EquateComparable(netip.AddrPort{}))
		}
	}
	return ""
}

// newPointers says which equal elements of two configs are not the same pointer.
func newPointers(before, now *model.Config, rebuilt bool) string {
	text := firstNonEmpty(
		renewed("pipeline", before.Pipelines, now.Pipelines), renewed("upstream", before.Upstreams, now.Upstreams),
		renewed("certificate", before.Certificates, now.Certificates),
	)
	for name, x := range before.RuleSets {
		y := now.RuleSets[name]
		if y == nil || text != "" {
			continue
		}
		text = renewed("host", x.Hosts, y.Hosts)
		if x != y && text == "" && !rebuilt && x.Hosts == y.Hosts && reflect.DeepEqual(x.Fallback, y.Fallback) && x.Kind == y.Kind && reflect.DeepEqual(x.Rules, y.Rules) {
			text = "rule set " + name + " is a new pointer"
		}
	}
	for name, x := range before.TLSSets {
		if y := now.TLSSets[name]; y != nil && text == "" {
			text = renewed("TLS entry", x.Entries, y.Entries)
		}
	}
	return text
}

func renewed[T any](what string, a, b persist.Map[*T]) string {
	for name, pair := range persist.Diff(a, b) {
		if pair[0] != nil && pair[1] != nil && reflect.DeepEqual(pair[0], pair[1]) {
			return fmt.Sprintf("%s %s is a new pointer", what, name)
		}
	}
	return ""
}
