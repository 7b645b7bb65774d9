package filter

// Step is one filter of a chain with its resolved jumps.
type Step struct {
	Name   string // alias or filter name, for logs
	Filter Filter
	Jump   []int // by Result: the index of the next step, or End
}

// End is the jump target that ends the chain.
const End = int(^uint(0) >> 1)

// Chain runs the steps of a flow. It is immutable.
type Chain struct{ steps []Step }

// NewChain makes a chain of the steps. A step jumps forward only: the caller has checked that.
func NewChain(steps []Step) *Chain { return &Chain{steps: steps} }

// Run runs the chain from its start. It reports false when a step answered Pending.
func (c *Chain) Run(x *Exchange) bool {
	x.step = 0
	return c.run(x)
}

// Resume goes on with the result of the step that had answered Pending.
func (c *Chain) Resume(x *Exchange, result Result) bool {
	x.step = c.steps[x.step].Next(x.step, result)
	return c.run(x)
}

// Steps returns the steps, to be read only.
func (c *Chain) Steps() []Step { return c.steps }

func (c *Chain) run(x *Exchange) bool {
	for x.step < len(c.steps) {
		step := &c.steps[x.step]
		result := step.Filter.Handle(x)
		if result == Pending {
			return false
		}
		x.step = step.Next(x.step, result)
	}
	return true
}

// Next is the step after i: where the result jumps to, else the one behind on success, else none.
func (s *Step) Next(i int, result Result) int {
	if int(result) < len(s.Jump) {
		return s.Jump[result]
	}
	if result == Next {
		return i + 1
	}
	return End
}
