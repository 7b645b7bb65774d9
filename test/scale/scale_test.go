package scale

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"sluice.dev/sluice/test/cluster"
)

var unavailable error // why there is no namespace; set once, before the tests

func TestMain(m *testing.M) {
	unavailable = cluster.Enter(func() error { return Prepare(context.Background(), settings()) })
	if unavailable != nil && !errors.Is(unavailable, cluster.ErrUnavailable) {
		fmt.Fprintln(os.Stderr, unavailable)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// settings of a small run.
func settings() Settings {
	s := Small()
	s.Progress, s.Sluice = os.Stderr, os.Getenv("SLUICE_TEST_BINARY")
	return s
}

// TestSmoke runs every part with a thousand objects. No answer may be wrong and no connection dropped; figures are only told.
func TestSmoke(t *testing.T) {
	if unavailable != nil {
		t.Skip(unavailable)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	s := settings()
	s.Dir = t.TempDir()
	report, err := Run(ctx, s)
	var table strings.Builder
	report.Print(&table)
	t.Log("\n" + table.String())
	if err != nil {
		t.Fatal(err)
	}
	if report.Wrong() {
		t.Error("answers were wrong, or connections were dropped")
	}
	for _, figure := range []string{"lists received", "steady", "event received", "Ingress acknowledged", "endpoint acknowledged", "Secret acknowledged", "all live", "all statuses", "CPU at", "time series", "one after another", "goroutines", "deleted", "wrong"} {
		if !strings.Contains(table.String(), figure) {
			t.Errorf("nothing is told of %q", figure)
		}
	}
}
