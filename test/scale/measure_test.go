package scale

import (
	"os"
	"strings"
	"testing"
	"time"
)

const metricsText = `# HELP a_seconds x
a_seconds_bucket{le="0.001"} 10
a_seconds_bucket{le="0.002"} 90
a_seconds_bucket{le="+Inf"} 100
a_seconds_count 100
b_total{upstream="shop/web:80",code="2xx"} 7
go_goroutines 12
`

func TestSamples(t *testing.T) {
	all, err := samples(strings.NewReader(metricsText))
	if err != nil {
		t.Fatal(err)
	}
	if got := gaugeOf(all, "go_goroutines"); len(all) != 6 || got != 12 {
		t.Errorf("%d samples, %g goroutines", len(all), got)
	}
	if got, _ := all[4].label("upstream"); got != "shop/web:80" {
		t.Errorf("upstream %q", got)
	}
	if _, found := all[4].label("stream"); found {
		t.Error("a part of a name is taken for it")
	}
	if _, err := samples(strings.NewReader("a x\n")); err == nil {
		t.Error("a sample that is no number is taken")
	}
}

func TestQuantilesOfAHistogram(t *testing.T) {
	all, err := samples(strings.NewReader(metricsText))
	if err != nil {
		t.Fatal(err)
	}
	h := histogramOf(all, "a_seconds")
	if got := h.quantile(.5); got != 1500*time.Microsecond {
		t.Errorf("median %s, want half of the second bucket", got)
	}
	if got := h.quantile(.99); got != 2*time.Millisecond {
		t.Errorf("p99 %s: of the last bucket only its beginning is known", got)
	}
	before := histogram{{.001, 10}, {.002, 10}, {.003, 10}}
	if got := h.since(before); got.total() != 90 || got.quantile(.01) < time.Millisecond {
		t.Errorf("since: %v", got)
	}
}

func TestQuantileOfDurations(t *testing.T) {
	var all []time.Duration
	for i := range 100 {
		all = append(all, time.Duration(100-i))
	}
	if p50, p99, p100 := quantile(all, .5), quantile(all, .99), quantile(all, 1); p50 != 50 || p99 != 99 || p100 != 100 || quantile(nil, .5) != 0 {
		t.Errorf("%d, %d, %d", p50, p99, p100)
	}
}

func TestUsageOfOurselves(t *testing.T) {
	u, err := usageOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if u.resident < 1<<20 || u.peak < u.resident || u.descriptors < 3 {
		t.Errorf("%+v", u)
	}
}
