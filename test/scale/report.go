package scale

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Row is one figure.
type Row struct {
	Figure  string
	Value   string
	Bar     string // "" is none: it is told for what it tells
	Met     bool
	Must    bool // not a matter of timing: a wrong answer, a dropped connection
	Method  string
	Peers   string // what others publish
	Problem []string
}

// Report is what a run found.
type Report struct{ Rows []Row }

func (r *Report) add(row Row) { r.Rows = append(r.Rows, row) }

// atMost adds a duration with its bar.
func (r *Report) atMost(row Row, took, bar time.Duration) {
	row.Value, row.Bar, row.Met = short(took), short(bar), took <= bar
	r.add(row)
}

// memory adds bytes with their bar.
func (r *Report) memory(row Row, bytes, bar int64) {
	row.Value, row.Bar, row.Met = megabytes(bytes), megabytes(bar), bytes <= bar
	r.add(row)
}

// Wrong reports whether something happened that no load excuses.
func (r *Report) Wrong() bool {
	for _, row := range r.Rows {
		if row.Must && !row.Met {
			return true
		}
	}
	return false
}

// Missed reports whether any bar was missed.
func (r *Report) Missed() bool {
	for _, row := range r.Rows {
		if row.Bar != "" && !row.Met {
			return true
		}
	}
	return false
}

// Print writes a table.
func (r *Report) Print(to io.Writer) {
	fmt.Fprintf(to, "%-5s%-62s %16s %16s\n", "", "figure", "measured", "at most")
	for _, row := range r.Rows {
		verdict := "MISS"
		switch {
		case row.Bar == "":
			verdict = ""
		case row.Met:
			verdict = "PASS"
		}
		fmt.Fprintf(to, "%-5s%-62s %16s %16s\n", verdict, row.Figure, row.Value, row.Bar)
		for _, line := range []struct{ name, text string }{{"how", row.Method}, {"others", row.Peers}} {
			if line.text != "" {
				fmt.Fprintf(to, "       %s: %s\n", line.name, line.text)
			}
		}
		if len(row.Problem) > 0 {
			fmt.Fprintf(to, "       %s\n", strings.Join(row.Problem, "\n       "))
		}
	}
}

// short writes a duration with three digits.
func short(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= 100*unit {
			return d.Round(unit).String()
		}
		if d >= unit {
			return d.Round(unit / 100).String()
		}
	}
	return d.String()
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
