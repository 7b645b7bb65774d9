package document

import (
	"slices"
	"strings"
)

// Nearest returns the known name that name was probably meant to be, "" when none is near.
func Nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, least := "", max(1, min(3, (len(name)+1)/3))+1
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		if candidate == "" || candidate == name {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < least {
			best, least = candidate, d
		}
	}
	if best == "" {
		best = extended(strings.ToLower(name), known)
	}
	return best
}

// extended finds a name that only lacks, or has too much of, a beginning or an end. Of several it is the one that has most in
// common, if there is just one.
func extended(name string, known []string) string {
	found, most := "", 2
	for _, candidate := range known {
		short, long := name, strings.ToLower(candidate)
		if len(short) > len(long) {
			short, long = long, short
		}
		if len(short) < most || !strings.HasPrefix(long, short) && !strings.HasSuffix(long, short) {
			continue
		}
		if len(short) == most {
			found = ""
			continue
		}
		found, most = candidate, len(short)
	}
	return found
}

// distance counts the letters to insert, delete, replace or swap with their neighbour to make b of a.
func distance(a, b string) int {
	if a == b {
		return 0
	}
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(last[j]+1, next[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}
