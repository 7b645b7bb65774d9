package cluster

import (
	"context"
	"fmt"
	"time"
)

// Wait asks until the answer is true, an error, or the context ends. The error says what was waited for.
func Wait(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s, %s so far: %w", what, time.Since(begin).Round(time.Millisecond), ctx.Err())
		case <-tick.C:
		}
	}
}
