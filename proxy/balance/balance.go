package balance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"sluice.dev/sluice/model/document"
)

// The policies.
const (
	RoundRobin     = "roundRobin"     // each in turn; like Weighted when the weights differ
	Weighted       = "weighted"       // each in turn, in proportion to its weight and evenly spread
	LeastRequest   = "leastRequest"   // of two at random, the one with fewer requests in flight for its weight
	Random         = "random"         // any
	WeightedRandom = "weightedRandom" // any, in proportion to its weight
	IPHash         = "ipHash"         // the same one for the same hash, as long as it is there
	HeaderHash     = "headerHash"     // likewise
)

// Policies returns the names of all policies.
func Policies() []string {
	return []string{RoundRobin, Weighted, LeastRequest, Random, WeightedRandom, IPHash, HeaderHash}
}

// Item is one endpoint to choose from.
type Item struct {
	Weight   int           // 0 gets nothing from a policy that weighs, unless no item has a weight
	InFlight *atomic.Int64 // requests in flight, counted by the caller; nil counts as 0
	Key      uint64        // Hash of its identity, for the policies that hash
}

// Picker picks among a fixed list of items. It is safe for concurrent use and picks without allocation.
type Picker struct {
	pick    func(p *Picker, hash uint64, skip func(int) bool) int
	items   []Item
	weights []int64 // never all 0, unless there are no items
	upTo    []int64 // sums of the weights so far, the item's included
	total   int64
	even    bool // all weights are the same

	turn atomic.Uint64

	mu      sync.Mutex
	current []int64 // the smooth weighted state
}

// New returns a Picker for the policy; "" is roundRobin. The error for an unknown policy names the nearest one.
func New(policy string, items []Item) (*Picker, error) {
	p := &Picker{items: items}
	switch policy {
	case "", RoundRobin, Weighted, LeastRequest, Random, WeightedRandom, IPHash, HeaderHash:
	default:
		return nil, unknown(policy)
	}
	p.weigh()
	switch policy {
	case "", RoundRobin, Weighted:
		p.pick = (*Picker).smooth
		if p.even {
			p.pick = (*Picker).inTurn
		}
	case LeastRequest:
		p.pick = (*Picker).leastOfTwo
	case WeightedRandom:
		p.pick = (*Picker).weightedRandom
	case Random:
		p.pick = (*Picker).random
	case IPHash, HeaderHash:
		p.pick = (*Picker).rendezvous
	}
	p.turn.Store(rand.Uint64() >> 1) // so that many pools, or many replicas, do not all begin with the first endpoint
	return p, nil
}

// Pick returns the index of an item for which skip reports false, or -1 when there is none. A nil skip skips none. Only
// the policies that hash look at hash: equal hashes get the same item.
func (p *Picker) Pick(hash uint64, skip func(i int) bool) int {
	if len(p.items) == 0 {
		return -1
	}
	return p.pick(p, hash, skip)
}

// Hash is the hash of an identity: of an address for Item.Key, of a client address or a field value for Pick. It is the same in
// every process.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// weigh fills in the weights: negative ones count as 0, and when all are 0 each counts as 1.
func (p *Picker) weigh() {
	p.weights = make([]int64, len(p.items))
	p.current = make([]int64, len(p.items))
	p.even = true
	for i := range p.items {
		p.weights[i] = min(max(int64(p.items[i].Weight), 0), math.MaxInt32)
		p.total += p.weights[i]
		p.even = p.even && p.weights[i] == p.weights[0]
	}
	if p.total == 0 {
		for i := range p.weights {
			p.weights[i] = 1
		}
		p.total = int64(len(p.weights))
	}
	p.upTo = make([]int64, len(p.items))
	var sum int64
	for i, w := range p.weights {
		sum += w
		p.upTo[i] = sum
	}
}

// inTurn takes the next turn again when that of a skipped item has come, so that the others share its load evenly.
func (p *Picker) inTurn(_ uint64, skip func(int) bool) int {
	n := uint64(len(p.items))
	i := int((p.turn.Add(1) - 1) % n)
	for range p.items {
		if skip == nil || !skip(i) {
			return i
		}
		i = int((p.turn.Add(1) - 1) % n)
	}
	return p.from(i, skip) // the turns of the others may have gone to other callers
}

// smooth is smooth weighted round robin: each gains its weight, the richest is picked and pays the sum.
func (p *Picker) smooth(_ uint64, skip func(int) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	best, total := -1, int64(0)
	for i, w := range p.weights {
		if w == 0 || skip != nil && skip(i) {
			continue
		}
		p.current[i] += w
		total += w
		if best < 0 || p.current[i] > p.current[best] {
			best = i
		}
	}
	if best >= 0 {
		p.current[best] -= total
	}
	return best
}

func (p *Picker) leastOfTwo(_ uint64, skip func(int) bool) int {
	a := p.weighted(rand.IntN(len(p.items)), -1, skip)
	if a < 0 {
		return -1
	}
	b := p.weighted(rand.IntN(len(p.items)), a, skip)
	if b >= 0 && p.inFlight(b)*p.weights[a] < p.inFlight(a)*p.weights[b] {
		return b
	}
	return a
}

// inFlight counts the request to be sent too, so that of two idle items the one with more weight is the better.
func (p *Picker) inFlight(i int) int64 {
	if p.items[i].InFlight == nil {
		return 1
	}
	return p.items[i].InFlight.Load() + 1
}

// weighted returns the first item at or after start that may be picked, has a weight and is not but; -1 when there is none.
func (p *Picker) weighted(start, but int, skip func(int) bool) int {
	i := start
	for range p.items {
		if i != but && p.weights[i] > 0 && (skip == nil || !skip(i)) {
			return i
		}
		if i++; i == len(p.items) {
			i = 0
		}
	}
	return -1
}

func (p *Picker) random(_ uint64, skip func(int) bool) int {
	for range tries {
		if i := rand.IntN(len(p.items)); skip == nil || !skip(i) {
			return i
		}
	}
	return p.from(rand.IntN(len(p.items)), skip)
}

// tries at random come before a scan of all: they nearly always suffice, and do not favour the one behind a skipped item.
const tries = 3

// from returns the first item at or after start that may be picked, or -1.
func (p *Picker) from(start int, skip func(int) bool) int {
	i := start
	for range p.items {
		if skip == nil || !skip(i) {
			return i
		}
		if i++; i == len(p.items) {
			i = 0
		}
	}
	return -1
}

func (p *Picker) weightedRandom(_ uint64, skip func(int) bool) int {
	for range tries {
		at := rand.Int64N(p.total)
		i := sort.Search(len(p.upTo), func(i int) bool { return p.upTo[i] > at })
		if skip == nil || !skip(i) {
			return i
		}
	}
	var total int64
	for i, w := range p.weights {
		if w > 0 && !skip(i) {
			total += w
		}
	}
	if total == 0 {
		return -1
	}
	at, last := rand.Int64N(total), -1
	for i, w := range p.weights {
		if w == 0 || skip(i) {
			continue
		}
		if last = i; at < w {
			break
		}
		at -= w
	}
	return last
}

// rendezvous gives each pair of hash and item a score and takes the highest: when an item goes, only what it had moves.
func (p *Picker) rendezvous(hash uint64, skip func(int) bool) int {
	best, bestScore := -1, 0.0
	top := uint64(0)
	for i := range p.items {
		if p.weights[i] == 0 || skip != nil && skip(i) {
			continue
		}
		score := mix(hash ^ p.items[i].Key)
		if p.even {
			if best < 0 || score > top {
				best, top = i, score
			}
			continue
		}
		if s := weighScore(score, p.weights[i]); best < 0 || s > bestScore {
			best, bestScore = i, s
		}
	}
	return best
}

// weighScore makes of a uniform score one whose chance to be the highest is in proportion to the weight.
func weighScore(score uint64, weight int64) float64 {
	uniform := (float64(score>>11) + 0.5) / (1 << 53) // in (0, 1)
	return -float64(weight) / math.Log(uniform)
}

// mix spreads the bits of x (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unknown is the error for a policy that is none.
func unknown(policy string) error {
	if near := document.Nearest(policy, Policies()); near != "" {
		return fmt.Errorf("load balance policy %q is unknown; did you mean %s?", policy, near)
	}
	return fmt.Errorf("load balance policy %q is unknown; there are %s", policy, strings.Join(Policies(), ", "))
}
