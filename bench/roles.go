package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// play runs this program as one of the servers of a measurement.
func play(role string, port, size int) error {
	switch role {
	case "backend":
		return backend(port, size)
	case "nethttp":
		return netHTTP(port)
	}
	return fmt.Errorf("no role %q", role)
}

// netHTTP is the plain proxy that Go's library makes: the bar that a data plane of one's own has to clear. Its origin's
// port stands in BENCH_ORIGIN.
func netHTTP(port int) error {
	origin := &url.URL{Scheme: "http", Host: os.Getenv("BENCH_ORIGIN")}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(origin); r.SetXForwarded(); r.Out.Host = r.In.Host },
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
	}
	server := &http.Server{Addr: address(port), Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

// backend answers every HTTP/1.1 request head with one fixed response from a single epoll loop, so that it is never what is
// measured. It reads no bodies.
func backend(port, size int) error {
	response := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nServer: backend\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
		size, strings.Repeat("x", size))
	listener, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	if err := syscall.SetsockoptInt(listener, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := syscall.Bind(listener, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := syscall.Listen(listener, 4096); err != nil {
		return err
	}
	poll, err := syscall.EpollCreate1(0)
	if err != nil {
		return err
	}
	if err := watch(poll, listener); err != nil {
		return err
	}
	return loop(poll, listener, response)
}

func loop(poll, listener int, response []byte) error {
	events, buffer := make([]syscall.EpollEvent, 256), make([]byte, 64<<10)
	for {
		n, err := syscall.EpollWait(poll, events, -1)
		if err != nil && err != syscall.EINTR {
			return err
		}
		for _, event := range events[:max(n, 0)] {
			if int(event.Fd) == listener {
				accept(poll, listener)
			} else {
				answer(int(event.Fd), buffer, response)
			}
		}
	}
}

func accept(poll, listener int) {
	for {
		conn, _, err := syscall.Accept4(listener, syscall.SOCK_NONBLOCK)
		if err != nil {
			return
		}
		_ = syscall.SetsockoptInt(conn, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1) // slower without, not wrong
		if watch(poll, conn) != nil {
			_ = syscall.Close(conn)
		}
	}
}

func answer(conn int, buffer, response []byte) {
	n, err := syscall.Read(conn, buffer)
	if err == syscall.EAGAIN {
		return
	}
	if n <= 0 || err != nil {
		_ = syscall.Close(conn)
		return
	}
	for range bytes.Count(buffer[:n], []byte("\r\n\r\n")) {
		for rest := response; len(rest) > 0; {
			n, err := syscall.Write(conn, rest)
			if err != nil && err != syscall.EAGAIN {
				return
			}
			rest = rest[max(n, 0):]
		}
	}
}

func watch(poll, fd int) error {
	return syscall.EpollCtl(poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
}
