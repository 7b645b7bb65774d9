package upstream

import (
	"log/slog"
	"net"
	"time"

	"sluice.dev/sluice/proxy/wire/h1"
	"sluice.dev/sluice/telemetry"
)

// Settings are what New needs. Zero values mean the defaults.
type Settings struct {
	Log     *slog.Logger
	Now     func() time.Time
	Metrics *telemetry.Metrics // nil: none
	Dial    func(address string, timeout time.Duration) (net.Conn, error)
	Lookup  Lookup // default: the hosts file and DNS
	Offline bool   // nothing is looked up: a host name stands for itself

	ConnectTimeout      time.Duration // default 5s
	ShortConnectTimeout time.Duration // while another endpoint is left; default 1s
	HeadTimeout         time.Duration // from the request's end to the response head; default 60s
	WriteTimeout        time.Duration // without any progress; default 60s
	IdleTimeout         time.Duration // of a connection between exchanges; default 55s
	MaxIdle             int           // connections kept per endpoint; default 1024
	Attempts            int           // connections tried for one exchange; default 4
	MaxConnections      int           // of all pools, idle ones among them, which make way; default no limit

	Ejection Ejection
	Retry    Retry

	began  time.Time
	client *h1.ClientSettings
}

// clock is a time as nanoseconds since began. Steps of the wall clock do not move it.
func (s *Settings) clock(now time.Time) int64 { return int64(now.Sub(s.began)) }

// Ejection says when an endpoint gets nothing for a while because exchanges with it failed.
type Ejection struct {
	Off      bool
	Broken   int           // exchanges in a row without a response; default 3
	Failed   int           // responses with a failure code in a row; default 5
	Duration time.Duration // the first time; each further time doubles it; default 5s
	Longest  time.Duration // default 2m
}

// Retry is the budget of retries that go to endpoints in doubtful standing. Retries to one that answered last time are free.
type Retry struct {
	Percent   int // of the requests; default 20
	PerSecond int // whatever the requests; default 10
	Burst     int // saved up; default 100
}

func (s Settings) withDefaults() Settings {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	if s.Now == nil {
		s.Now = time.Now
	}
	s.began = s.Now()
	s.client = h1.DefaultClientSettings()
	if s.Dial == nil {
		s.Dial = dial
	}
	if s.Lookup == nil {
		s.Lookup = newResolver().lookUp
	}
	orDuration(&s.ConnectTimeout, 5*time.Second)
	orDuration(&s.ShortConnectTimeout, time.Second)
	orDuration(&s.HeadTimeout, time.Minute)
	orDuration(&s.WriteTimeout, time.Minute)
	s.client.WriteTimeout = s.WriteTimeout
	orDuration(&s.IdleTimeout, 55*time.Second)
	orInt(&s.MaxIdle, 1024)
	orInt(&s.Attempts, 4)
	orInt(&s.Ejection.Broken, 3)
	orInt(&s.Ejection.Failed, 5)
	orDuration(&s.Ejection.Duration, 5*time.Second)
	orDuration(&s.Ejection.Longest, 2*time.Minute)
	orInt(&s.Retry.Percent, 20)
	orInt(&s.Retry.PerSecond, 10)
	orInt(&s.Retry.Burst, 100)
	return s
}

func dial(address string, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	return dialer.Dial("tcp", address)
}

func orDuration(value *time.Duration, fallback time.Duration) {
	if *value <= 0 {
		*value = fallback
	}
}

func orInt(value *int, fallback int) {
	if *value <= 0 {
		*value = fallback
	}
}
