package scale

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// answer to a request.
type answer struct {
	status  int
	backend netip.Addr // who answered; not valid when it was none of ours
	host    string     // that the backend saw
	path    string
	closed  bool // the connection is closed after it
}

// parse reads what a backend says.
func (a *answer) parse(body string) (rest string) {
	words := strings.SplitN(body, " ", 4)
	if len(words) < 3 {
		return ""
	}
	a.backend, _ = netip.ParseAddr(words[0]) // what is none stays invalid
	a.host, a.path = words[1], words[2]
	if len(words) == 4 {
		rest = words[3]
	}
	return rest
}

// String says what it was.
func (a answer) String() string {
	return fmt.Sprintf("%d of %s, which saw %s%s", a.status, a.backend, a.host, a.path)
}

// answerWithin is when an answer is given up.
const answerWithin = 20 * time.Second

// conn is one HTTP/1.1 connection, which is never replaced unseen.
type conn struct {
	net.Conn
	reader *bufio.Reader
	used   time.Time // the last time
}

func dial(ctx context.Context, address string) (*conn, error) {
	c, err := (&net.Dialer{Timeout: answerWithin}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, reader: bufio.NewReader(c)}, nil
}

// get asks once.
func (c *conn) get(host, path string, once bool) (a answer, err error) {
	if err := c.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return a, err
	}
	more := ""
	if once {
		more = onceHeader + ": 1\r\n"
	}
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n"+more+"\r\n"); err != nil {
		return a, err
	}
	response, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	a.status, a.closed = response.StatusCode, response.Close
	if a.status == http.StatusOK {
		a.parse(string(body))
	}
	return a, nil
}

// pool keeps connections to one address.
type pool struct {
	address string
	mu      sync.Mutex
	free    []*conn
}

// idleMost is how long a connection is kept that is not used: Sluice closes those that have idled for a minute.
const idleMost = 30 * time.Second

func (p *pool) take(ctx context.Context) (*conn, error) {
	p.mu.Lock()
	for len(p.free) > 0 { // all in turn, so that none idles while others are used
		c := p.free[0]
		p.free = p.free[1:]
		if time.Since(c.used) < idleMost {
			p.mu.Unlock()
			return c, nil
		}
		c.Close()
	}
	p.mu.Unlock()
	return dial(ctx, p.address)
}

// get asks on a connection that is free, or a new one.
func (p *pool) get(ctx context.Context, host, path string, once bool) (answer, error) {
	c, err := p.take(ctx)
	if err != nil {
		return answer{}, err
	}
	a, err := c.get(host, path, once)
	if err != nil || a.closed {
		c.Close()
		return a, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.used = time.Now()
	p.free = append(p.free, c)
	return a, nil
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.free {
		c.Close()
	}
	p.free = nil
}

// poll is one answer of many.
type poll struct {
	sent, got time.Time
	answer
	err error
}

// pollsAtOnce bounds how many polls wait for an answer: more would only find out what those do, and keep the machine busy.
const pollsAtOnce = 16

// poll asks so often, whether answers come or not, until take says that it is enough or the context ends. take is called for one answer
// at a time.
func (p *pool) poll(ctx context.Context, every time.Duration, host, path string, take func(poll) (enough bool)) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	var all sync.WaitGroup
	defer all.Wait()
	var taking sync.Mutex
	slots := make(chan struct{}, pollsAtOnce)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case slots <- struct{}{}:
		default:
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			one := poll{sent: time.Now()}
			one.answer, one.err = p.get(context.WithoutCancel(ctx), host, path, false)
			one.got = time.Now()
			taking.Lock()
			defer taking.Unlock()
			if take(one) {
				end()
			}
		})
	}
}
