package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const requestLua = `
wrk.headers["Host"]="bench.example.com"
wrk.headers["User-Agent"]="Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36"
wrk.headers["Accept"]="text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
wrk.headers["Accept-Language"]="en-US,en;q=0.5"
wrk.headers["Accept-Encoding"]="gzip, deflate, br"
wrk.headers["Cookie"]="visit=abcdefghijklmnopqrstuvwxyz0123456789; theme=dark"
wrk.headers["Cache-Control"]="no-cache"
`

// result is one measurement of one program.
type result struct {
	rate     float64
	cpu      float64 // microseconds a request
	p50, p99 string
	memory   int64
	wrong    string // what wrk complained of
}

// measureProxies puts each program in front of the same backend, in turn, round after round.
func measureProxies(ctx context.Context, o options) error {
	ports, err := freePorts(5)
	if err != nil {
		return err
	}
	origin := ports[0]
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Setenv("BENCH_ORIGIN", address(origin)); err != nil {
		return err
	}
	back, err := start(ctx, o, "backend", self, "-role", "backend", "-port", strconv.Itoa(origin), "-size", strconv.Itoa(o.size))
	if err != nil {
		return err
	}
	defer back.stop()
	if err := back.awaitPort(origin); err != nil {
		return err
	}
	programs, err := contenders(o, self, origin, ports[1:])
	if err != nil {
		return err
	}
	rows := map[string][]result{}
	for round := range o.rounds {
		for _, p := range programs {
			r, err := load(ctx, o, p)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			fmt.Printf("round %d  %-8s %8.0f req/s  %7.2f us/req  p50 %-8s p99 %-8s %4d MB %s\n", round+1, p.name, r.rate, r.cpu, r.p50, r.p99, r.memory>>20, r.wrong)
			rows[p.name] = append(rows[p.name], r)
		}
	}
	for _, p := range programs[1:] {
		fmt.Printf("cpu per request, sluice/%s: %.2f (median of %d)\n", p.name, medianRatio(rows["sluice"], rows[p.name]), o.rounds)
	}
	return nil
}

func medianRatio(a, b []result) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i].cpu / b[i].cpu
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

var (
	requestsLine = regexp.MustCompile(`(\d+) requests in`)
	rateLine     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	p50Line      = regexp.MustCompile(`50%\s+(\S+)`)
	p99Line      = regexp.MustCompile(`99%\s+(\S+)`)
	wrongLine    = regexp.MustCompile(`(?m)^\s*(Non-2xx.*|Socket errors.*)$`)
)

func load(ctx context.Context, o options, p program) (result, error) {
	proxy, err := start(ctx, o, p.name, p.argv...)
	if err != nil {
		return result{}, err
	}
	defer proxy.stop()
	if err := proxy.awaitPort(p.port); err != nil {
		return result{}, err
	}
	if _, err := wrk(ctx, o, p.port, 1); err != nil { // warm up
		return result{}, err
	}
	before := proxy.cpu()
	out, err := wrk(ctx, o, p.port, o.seconds)
	if err != nil {
		return result{}, err
	}
	spent := proxy.cpu() - before
	n, err := strconv.ParseFloat(first(requestsLine, out), 64)
	if err != nil || n == 0 {
		return result{}, errors.New("it answered nothing")
	}
	rate, _ := strconv.ParseFloat(first(rateLine, out), 64) // the pattern matches numbers only
	return result{rate: rate, cpu: float64(spent.Microseconds()) / n, p50: first(p50Line, out), p99: first(p99Line, out), memory: proxy.memory(), wrong: first(wrongLine, out)}, nil
}

func wrk(ctx context.Context, o options, port, seconds int) (string, error) {
	script := filepath.Join(o.dir, "request.lua")
	if err := os.WriteFile(script, []byte(requestLua), 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds+30)*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "wrk", "-t1", "-c", strconv.Itoa(o.conns), "-d", strconv.Itoa(seconds), "--latency", "-s", script,
		"http://"+address(port)+"/some/path?q=1").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("wrk: %w: %s", err, out)
	}
	return string(out), nil
}

func first(pattern *regexp.Regexp, text string) string {
	if m := pattern.FindStringSubmatch(text); m != nil {
		return strings.TrimSpace(m[1])
	}
	return ""
}
