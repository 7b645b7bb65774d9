package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Server serves a handler on one address, and tries again while the address is taken.
type Server struct {
	Address string
	Handler http.Handler
	Log     *slog.Logger
	Retry   time.Duration // between attempts to listen; 0 means 3 s
}

// Run serves until ctx is over; then it lets what runs finish for a second.
func (s *Server) Run(ctx context.Context) {
	listener := s.listen(ctx)
	if listener == nil {
		return
	}
	server := &http.Server{
		Handler: s.Handler, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 60 * time.Second, IdleTimeout: 60 * time.Second,
		MaxHeaderBytes: 32 << 10,
	}
	s.Log.Info("admin address", "address", listener.Addr().String())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		s.Log.Error("admin address stopped", "error", err)
	case <-ctx.Done():
		finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(finish) != nil {
			_ = server.Close() // nothing is left to do about it
		}
	}
}

// listen returns nil when ctx is over first.
func (s *Server) listen(ctx context.Context) net.Listener {
	retry := s.Retry
	if retry == 0 {
		retry = 3 * time.Second
	}
	for said := false; ; {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Address)
		if err == nil {
			return listener
		}
		if ctx.Err() != nil {
			return nil
		}
		if !said {
			s.Log.Error("admin address cannot be used; trying on", "address", s.Address, "error", err)
			said = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry):
		}
	}
}
