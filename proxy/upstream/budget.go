package upstream

import (
	"sync"
	"sync/atomic"
	"time"
)

// budget lets retries be a share of the requests, and a few per second, so that they cannot multiply the load of an upstream
// that is in trouble. A request earns Percent points, a retry costs 100.
type budget struct {
	rules  *Retry
	points atomic.Int64

	mu     sync.Mutex
	topped time.Time // when the points per second were last added
}

const retryCost = 100

func (b *budget) fill(rules *Retry, now time.Time) {
	b.rules = rules
	b.topped = now
	b.points.Store(b.most())
}

func (b *budget) most() int64 { return int64(b.rules.Burst) * retryCost }

// earn counts a request. A full budget, which is the rule, costs one load.
func (b *budget) earn() {
	if b.points.Load() < b.most() {
		b.points.Add(int64(b.rules.Percent))
	}
}

// spend takes the price of a retry, if it is there.
func (b *budget) spend(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if since := now.Sub(b.topped); since > 0 {
		earned := int64(since.Seconds() * float64(b.rules.PerSecond) * retryCost)
		if have := b.points.Load(); have+earned > b.most() {
			earned = max(0, b.most()-have)
		}
		if earned > 0 || since > time.Second {
			b.points.Add(earned)
			b.topped = now
		}
	}
	if b.points.Load() < retryCost {
		return false
	}
	b.points.Add(-retryCost)
	return true
}
