package status

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"sluice.dev/sluice/model"
	"sluice.dev/sluice/model/persist"
)

// The types of conditions.
const (
	Accepted     = "Accepted"     // the object is read and served
	ResolvedRefs = "ResolvedRefs" // what it refers to is there and can be used
)

// Condition is one thing that holds for an object or does not.
type Condition struct {
	Type    string
	Holds   bool
	Reason  string // CamelCase
	Message string
}

// Entry is what is said about one object. It is not written once it is in a Report.
type Entry struct {
	Key        model.Key
	Owners     []string // the controllers that serve the object, ordered; none: it is not ours
	Problems   []model.Problem
	Conditions []Condition // ordered by type
}

// Report is what is said about all objects. It never changes; nil is an empty one.
type Report struct {
	entries persist.Map[*Entry] // by String of the key
}

// Get returns the entry of an object, nil when nothing is said about it.
func (r *Report) Get(key model.Key) *Entry {
	if r == nil {
		return nil
	}
	e, _ := r.entries.Get(key.String())
	return e
}

// Len is the number of entries.
func (r *Report) Len() int {
	if r == nil {
		return 0
	}
	return r.entries.Len()
}

// All yields the entries, ordered by kind, namespace and name.
func (r *Report) All() iter.Seq[*Entry] {
	var all []*Entry
	if r != nil {
		for _, e := range r.entries.All() {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *Entry) int { return compareKeys(a.Key, b.Key) })
	return slices.Values(all)
}

// Problems returns all problems, ordered by object, those of one object in the order of its entry.
func (r *Report) Problems() []model.Problem {
	var problems []model.Problem
	for e := range r.All() {
		problems = append(problems, e.Problems...)
	}
	return problems
}

// Update returns r with some entries set and others removed; r itself when that changes nothing.
func (r *Report) Update(set []*Entry, remove []model.Key) *Report {
	var old persist.Map[*Entry]
	if r != nil {
		old = r.entries
	}
	edit, changed := old.Edit(), false
	for _, e := range set {
		name := e.Key.String()
		if was, found := old.Get(name); !found || !Equal(was, e) {
			edit.Set(name, e)
			changed = true
		}
	}
	for _, key := range remove {
		if _, found := old.Get(key.String()); found {
			edit.Delete(key.String())
			changed = true
		}
	}
	if !changed && r != nil {
		return r
	}
	return &Report{edit.Map()}
}

// Of returns a report of nothing but problems, such as those of an Outcome.
func Of(problems []model.Problem) *Report {
	byKey := map[model.Key]*Entry{}
	var entries []*Entry
	for _, p := range problems {
		e := byKey[p.Origin.Key]
		if e == nil {
			e = &Entry{Key: p.Origin.Key}
			byKey[p.Origin.Key] = e
			entries = append(entries, e)
		}
		e.Problems = append(e.Problems, p)
	}
	for _, e := range entries {
		e.Problems = Tidy(e.Problems)
	}
	return (*Report)(nil).Update(entries, nil)
}

// Beyond returns those of some problems that a report does not tell already: it has none as grave of the same object and the same field or a
// part of it.
func Beyond(problems []model.Problem, r *Report) []model.Problem {
	var rest []model.Problem
	for _, p := range problems {
		e := r.Get(p.Origin.Key)
		if e == nil || !slices.ContainsFunc(e.Problems, func(told model.Problem) bool {
			return told.Severity >= p.Severity && partOf(told.Origin.Field, p.Origin.Field)
		}) {
			rest = append(rest, p)
		}
	}
	return rest
}

// partOf reports whether a field is another one or within it.
func partOf(field, whole string) bool {
	rest, found := strings.CutPrefix(field, whole)
	return found && (rest == "" || whole == "" || rest[0] == '.' || rest[0] == '[')
}

// Merge returns what all reports say together: of each object the owners and problems of all, and of each type of condition the
// first that does not hold.
func Merge(reports ...*Report) *Report {
	var merged *Report
	for _, r := range reports {
		switch {
		case merged.Len() == 0:
			merged = r
		case r.Len() > 0:
			var joined []*Entry
			for _, e := range r.entries.All() {
				joined = append(joined, join(merged.Get(e.Key), e))
			}
			merged = merged.Update(joined, nil)
		}
	}
	return merged
}

func join(a, b *Entry) *Entry {
	if a == nil {
		return b
	}
	made := &Entry{Key: a.Key, Owners: slices.Concat(a.Owners, b.Owners), Problems: Tidy(slices.Concat(a.Problems, b.Problems))}
	slices.Sort(made.Owners)
	made.Owners = slices.Compact(made.Owners)
	all := slices.Concat(a.Conditions, b.Conditions)
	slices.SortStableFunc(all, func(a, b Condition) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), cmp.Compare(holds(a), holds(b)))
	})
	made.Conditions = slices.CompactFunc(all, func(a, b Condition) bool { return a.Type == b.Type })
	return made
}

func holds(c Condition) int {
	if c.Holds {
		return 1
	}
	return 0
}

// Diff yields, in no order, what was said before and is said now about each object for which that is not the same; nil is
// nothing.
func Diff(old, new *Report) iter.Seq2[*Entry, *Entry] {
	return func(yield func(*Entry, *Entry) bool) {
		var a, b persist.Map[*Entry]
		if old != nil {
			a = old.entries
		}
		if new != nil {
			b = new.entries
		}
		for _, pair := range persist.Diff(a, b) {
			if pair[0] != nil && pair[1] != nil && Equal(pair[0], pair[1]) {
				continue
			}
			if !yield(pair[0], pair[1]) {
				return
			}
		}
	}
}

// Equal reports whether two entries say the same.
func Equal(a, b *Entry) bool {
	return a == b || a.Key == b.Key && slices.Equal(a.Owners, b.Owners) && slices.Equal(a.Problems, b.Problems) && slices.Equal(a.Conditions, b.Conditions)
}

// Tidy orders problems by object and field, the graver first, and removes those that stand twice. It may write to the list.
func Tidy(problems []model.Problem) []model.Problem {
	slices.SortStableFunc(problems, func(a, b model.Problem) int {
		return cmp.Or(
			compareKeys(a.Origin.Key, b.Origin.Key), compareFields(a.Origin.Field, b.Origin.Field), cmp.Compare(b.Severity, a.Severity),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Mend, b.Mend),
		)
	})
	return slices.Compact(problems)
}

func compareKeys(a, b model.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// compareFields orders indices as numbers: rules[2] before rules[10].
func compareFields(a, b string) int {
	for a != "" && b != "" {
		i, j := digits(a), digits(b)
		if i > 0 && j > 0 {
			if c := cmp.Or(cmp.Compare(i, j), strings.Compare(a[:i], b[:j])); c != 0 {
				return c
			}
			a, b = a[i:], b[j:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits is how many digits s begins with.
func digits(s string) int {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return i
		}
	}
	return len(s)
}
