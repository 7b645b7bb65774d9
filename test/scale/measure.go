package scale

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// usage is what a process takes, as the kernel says it.
type usage struct {
	resident, peak int64         // bytes
	program        int64         // of resident: pages of the program's file, which the system may drop
	cpu            time.Duration // user and system, since it began
	waited         time.Duration // for a core, while it was to run, all threads together
	descriptors    int
}

func usageOf(pid int) (u usage, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64) // the lines looked at are numbers
		switch name {
		case "VmRSS":
			u.resident = n << 10
		case "VmHWM":
			u.peak = n << 10
		case "RssFile":
			u.program = n << 10
		}
	}
	if text, err = os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil {
		return u, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	for _, field := range fields[11:13] {
		n, _ := strconv.ParseInt(field, 10, 64)
		u.cpu += time.Duration(n) * 10 * time.Millisecond // clock ticks are hundredths for programs
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return u, err
	}
	for _, thread := range threads {
		text, err := os.ReadFile(thread)
		if fields := strings.Fields(string(text)); err == nil && len(fields) == 3 {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			u.waited += time.Duration(n)
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	u.descriptors = len(files)
	return u, err
}

// spent is the CPU time that the machine and the programs of our namespace have spent so far.
type spent struct {
	all time.Duration
	by  map[string]time.Duration // by the program's name
	// waited is how long Sluice was to run and had no core.
	waited time.Duration
}

func spentNow() (s spent, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line)[1:] {
		n, _ := strconv.ParseInt(field, 10, 64)
		if i != 3 && i != 4 && i < 8 { // idle, iowait; guests stand in user, too
			s.all += time.Duration(n) * 10 * time.Millisecond
		}
	}
	s.by = map[string]time.Duration{}
	folders, err := os.ReadDir("/proc")
	if err != nil {
		return s, err
	}
	for _, folder := range folders {
		pid, err := strconv.Atoi(folder.Name())
		if err != nil {
			continue
		}
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		u, gone := usageOf(pid)
		if err == nil && gone == nil {
			program := strings.TrimSpace(string(name))
			if s.by[program] += u.cpu; program == "sluice" {
				s.waited += u.waited
			}
		}
	}
	return s, nil
}

// since says how many cores each program and those that are none of ours took.
func (s spent) since(before spent, took time.Duration) string {
	others := s.all - before.all
	var text []string
	for _, name := range slices.Sorted(maps.Keys(s.by)) {
		d := s.by[name] - before.by[name]
		others -= d
		if share := d.Seconds() / took.Seconds(); share >= .01 {
			text = append(text, fmt.Sprintf("%s %.2f", name, share))
		}
	}
	return fmt.Sprintf("%s; others on this machine %.2f; sluice waited for one %.3f", strings.Join(text, ", "), max(0, others.Seconds()/took.Seconds()), (s.waited-before.waited).Seconds()/took.Seconds())
}

// sample is one line of /metrics.
type sample struct {
	name   string
	labels string // as they stand
	value  float64
}

// samples reads the text that /metrics gives.
func samples(text io.Reader) ([]sample, error) {
	var all []sample
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		if end < 0 {
			return nil, fmt.Errorf("read metrics: %q", line)
		}
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read metrics: %q: %w", line, err)
		}
		name, labels, _ := strings.Cut(line[:end], "{")
		all = append(all, sample{name, strings.TrimSuffix(labels, "}"), value})
	}
	return all, lines.Err()
}

// label of a sample; found is false when it has none of that name.
func (s sample) label(name string) (value string, found bool) {
	rest := "," + s.labels
	at := strings.Index(rest, ","+name+`="`)
	if at < 0 {
		return "", false
	}
	value, _, found = strings.Cut(rest[at+len(name)+3:], `"`)
	return value, found
}

// gaugeOf is the value of a metric without labels.
func gaugeOf(all []sample, name string) float64 {
	for _, s := range all {
		if s.name == name {
			return s.value
		}
	}
	return math.NaN()
}

// bucket of a histogram: how many samples are at most so long.
type bucket struct {
	most  float64
	count float64
}

// histogram has its buckets ordered, and all samples in the last.
type histogram []bucket

// histogramOf adds up the histograms of a name, whatever their labels.
func histogramOf(all []sample, name string) histogram {
	sum := map[float64]float64{}
	for _, s := range all {
		text, found := s.label("le")
		if s.name != name+"_bucket" || !found {
			continue
		}
		most, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		sum[most] += s.value
	}
	h := make(histogram, 0, len(sum))
	for most, count := range sum {
		h = append(h, bucket{most, count})
	}
	slices.SortFunc(h, func(a, b bucket) int {
		if a.most < b.most {
			return -1
		}
		return 1
	})
	return h
}

// since takes away what was counted before.
func (h histogram) since(before histogram) histogram {
	now := slices.Clone(h)
	for i := range now {
		if i < len(before) {
			now[i].count -= before[i].count
		}
	}
	return now
}

func (h histogram) total() float64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].count
}

// quantile lies within its bucket in proportion, as Prometheus has it.
func (h histogram) quantile(q float64) time.Duration {
	rank, before, least := q*h.total(), 0.0, 0.0
	for _, b := range h {
		if b.count >= rank && b.count > before {
			if math.IsInf(b.most, 1) {
				return seconds(least)
			}
			return seconds(least + (b.most-least)*(rank-before)/(b.count-before))
		}
		before, least = b.count, b.most
	}
	return 0
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// quantile of durations; they are ordered by it.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(math.Ceil(q*float64(len(all))))-1)]
}
