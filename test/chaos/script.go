package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Script is what goes wrong.
type Script struct {
	Seed  uint64 `json:"seed,omitempty"` // of chance
	Rules []Rule `json:"rules"`
}

// Rule says what happens to some requests, or to some events of some watches. The first rule that applies acts.
type Rule struct {
	Name       string   `json:"name,omitempty"`
	Verbs      []string `json:"verbs,omitempty"`      // get, list, watch, create, update, patch, delete, deletecollection; none: all
	Resources  []string `json:"resources,omitempty"`  // ingresses, pods/status; none: all
	Namespaces []string `json:"namespaces,omitempty"` // of the request; "" is a request over all namespaces; none: all
	Events     []string `json:"events,omitempty"`     // ADDED, MODIFIED, DELETED, BOOKMARK; none: all but bookmarks; for what is done to events

	Skip   int             `json:"skip,omitempty"`   // so many that match pass first
	Times  int             `json:"times,omitempty"`  // then it acts so often; 0: always
	Chance float64         `json:"chance,omitempty"` // from 0 to 1; 0 is 1
	From   metav1.Duration `json:"from,omitempty"`   // since the script began
	Until  metav1.Duration `json:"until,omitempty"`  // 0: for ever

	Do         Action          `json:"do"`
	Code       int             `json:"code,omitempty"`       // status of answer
	RetryAfter int             `json:"retryAfter,omitempty"` // seconds, of answer
	Time       metav1.Duration `json:"time,omitempty"`       // of delay, hang, delayEvent, reorderEvents (how long an event may wait for the next)
}

// Action is what a rule does.
type Action string

// What is done to requests.
const (
	Answer         Action = "answer"         // with the status Code
	Delay          Action = "delay"          // forward it after Time
	Hang           Action = "hang"           // no answer for Time, or until the client gives up; then it is cut
	Cut            Action = "cut"            // close the connection or stream without an answer
	Lose           Action = "lose"           // forward it, then cut instead of the answer
	CutConnections Action = "cutConnections" // close every client's connections
)

// What is done to events of watches.
const (
	DelayEvent     Action = "delayEvent"     // for Time, and all events behind it
	DuplicateEvent Action = "duplicateEvent" // sent twice
	ReorderEvents  Action = "reorderEvents"  // sent behind the next one of another object
	CutWatch       Action = "cutWatch"       // half of the event, then the connection or stream breaks
	EndWatch       Action = "endWatch"       // the watch ends in order before the event
	ExpireWatch    Action = "expireWatch"    // an ERROR event with 410 Gone instead of the event, then the end
)

var (
	requestActions = []Action{Answer, Delay, Hang, Cut, Lose, CutConnections}
	eventActions   = []Action{DelayEvent, DuplicateEvent, ReorderEvents, CutWatch, EndWatch, ExpireWatch}
)

// Parse reads a script from YAML.
func Parse(text []byte) (*Script, error) {
	s := &Script{}
	if err := yaml.UnmarshalStrict(text, s); err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	for i := range s.Rules {
		if err := s.Rules[i].check(); err != nil {
			return nil, fmt.Errorf("script: rules[%d]: %w", i, err)
		}
	}
	return s, nil
}

// Load reads a script from a file.
func Load(file string) (*Script, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

func (r *Rule) check() error {
	needsTime := slices.Contains([]Action{Delay, DelayEvent}, r.Do)
	switch {
	case !slices.Contains(requestActions, r.Do) && !r.onEvents():
		return fmt.Errorf("do: %q is not known; use one of %v %v", r.Do, requestActions, eventActions)
	case r.Do == Answer && (r.Code < 400 || r.Code > 599):
		return fmt.Errorf("code: %d is no error status", r.Code)
	case r.Do != Answer && (r.Code != 0 || r.RetryAfter != 0):
		return fmt.Errorf("code and retryAfter belong to do: answer")
	case needsTime && r.Time.Duration <= 0:
		return fmt.Errorf("time: %s needs one", r.Do)
	case r.Chance < 0 || r.Chance > 1:
		return fmt.Errorf("chance: %v is not between 0 and 1", r.Chance)
	case r.Skip < 0 || r.Times < 0:
		return fmt.Errorf("skip and times count up from 0")
	case !r.onEvents() && r.Events != nil:
		return fmt.Errorf("events: %s is done to requests", r.Do)
	case r.onEvents() && r.Verbs != nil && !slices.Equal(r.Verbs, []string{"watch"}):
		return fmt.Errorf("verbs: only a watch has events")
	}
	return nil
}

func (r *Rule) onEvents() bool { return slices.Contains(eventActions, r.Do) }

func (r *Rule) title() string {
	if r.Name != "" {
		return r.Name
	}
	return string(r.Do)
}

// matches leaves time and counts aside. The event is empty for the request itself.
func (r *Rule) matches(q request, event string) bool {
	in := func(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }
	if (event != "") != r.onEvents() || !in(r.Verbs, q.verb) || !in(r.Resources, q.resource) || !in(r.Namespaces, q.namespace) {
		return false
	}
	if event == "BOOKMARK" && r.Events == nil {
		return false
	}
	return event == "" || in(r.Events, event)
}

// play is a script that is being played.
type play struct {
	script Script
	begin  time.Time

	mu    sync.Mutex
	seen  []int // by rule: what matched in its time
	acted []int // by rule
	dice  *rand.Rand
}

func newPlay(s *Script) *play {
	return &play{script: *s, begin: time.Now(), seen: make([]int, len(s.Rules)), acted: make([]int, len(s.Rules)), dice: rand.New(rand.NewPCG(s.Seed, s.Seed))}
}

// next is the rule that acts on a request or event, nil for none.
func (p *play) next(q request, event string) *Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := time.Since(p.begin)
	for i := range p.script.Rules {
		r := &p.script.Rules[i]
		if !r.matches(q, event) || age < r.From.Duration || r.Until.Duration > 0 && age > r.Until.Duration {
			continue
		}
		p.seen[i]++
		if p.seen[i] <= r.Skip || r.Times > 0 && p.acted[i] >= r.Times || r.Chance > 0 && p.dice.Float64() >= r.Chance {
			continue
		}
		p.acted[i]++
		return r
	}
	return nil
}

// open lists the rules that have not acted yet as often as they are to, those without a number at least once, and still may.
func (p *play) open() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for i := range p.script.Rules {
		r := &p.script.Rules[i]
		over := r.Until.Duration > 0 && time.Since(p.begin) > r.Until.Duration
		if p.acted[i] < max(r.Times, 1) && !over {
			out = append(out, fmt.Sprintf("%s acted %d times of %d", r.title(), p.acted[i], max(r.Times, 1)))
		}
	}
	return out
}
