package filter

import (
	"strings"
	"testing"

	"sluice.dev/sluice/proxy/message"
)

type fake struct {
	name   string
	result Result
	trace  *[]string
}

func (f fake) Handle(*Exchange) Result {
	*f.trace = append(*f.trace, f.name)
	return f.result
}

func TestChainJumps(t *testing.T) {
	for _, c := range []struct {
		name string
		jump []int
		res  Result
		want string
	}{
		{"success goes on", nil, Next, "a b c"},
		{"a result without a jump ends", nil, 1, "a"},
		{"a jump goes forward", []int{1, 2}, 1, "a c"},
		{"END ends", []int{1, End}, 1, "a"},
		{"success may jump too", []int{2}, Next, "a c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var trace []string
			chain := NewChain([]Step{
				{Name: "a", Filter: fake{"a", c.res, &trace}, Jump: c.jump},
				{Name: "b", Filter: fake{"b", Next, &trace}},
				{Name: "c", Filter: fake{"c", Next, &trace}},
			})
			if !chain.Run(&Exchange{}) {
				t.Fatal("pending")
			}
			if got := strings.Join(trace, " "); got != c.want {
				t.Errorf("ran %s, want %s", got, c.want)
			}
		})
	}
}

func TestChainResumes(t *testing.T) {
	var trace []string
	chain := NewChain([]Step{
		{Name: "wait", Filter: fake{"wait", Pending, &trace}},
		{Name: "after", Filter: fake{"after", Next, &trace}},
	})
	x := &Exchange{}
	if chain.Run(x) {
		t.Fatal("a pending step did not stop the chain")
	}
	if !chain.Resume(x, Next) {
		t.Fatal("pending again")
	}
	if got := strings.Join(trace, " "); got != "wait after" {
		t.Errorf("ran %s", got)
	}
}

func TestHooksRunLastFirstAndOnce(t *testing.T) {
	var got []string
	x := &Exchange{}
	x.OnResponse(func(*Exchange) { got = append(got, "first") })
	x.OnResponse(func(*Exchange) { got = append(got, "second") })
	x.RunHooks()
	x.RunHooks()
	if strings.Join(got, " ") != "second first" {
		t.Errorf("hooks ran %v", got)
	}
}

// ended is a body and a tunnel that say whether they were given up.
type ended struct {
	message.Tunnel
	closed bool
}

func (e *ended) Trailer() *message.Header { return nil }
func (e *ended) Close() error             { e.closed = true; return nil }

func TestAnswersThatAreReplacedAreGivenUp(t *testing.T) {
	var x Exchange
	var body, tunnel ended
	x.Answer().Body = &body
	x.Answer().Tunnel = &tunnel
	if !body.closed || tunnel.closed {
		t.Errorf("body closed: %v, tunnel closed: %v", body.closed, tunnel.closed)
	}
	x.Reply(message.FilterBroken)
	if !tunnel.closed || x.Response.Tunnel != nil {
		t.Error("the origin's side of an upgrade was left open")
	}
}
