package scale

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"time"

	"github.com/gorilla/websocket"
)

// onceHeader asks the backend to close the connection after its answer, so that asking every Service once leaves no thousands open.
const onceHeader = "X-Once"

// startBackends makes every address of backendNetwork local and answers on all of them: with the address that was asked, and the host
// and path that it saw.
func startBackends(ctx context.Context) (stop func(), err error) {
	if out, err := exec.CommandContext(ctx, "ip", "route", "add", "local", backendNetwork.String(), "dev", "lo").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make the addresses of backends local: %w: %s", err, out)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", fmt.Sprintf("0.0.0.0:%d", backendPort))
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(answerRequest), ReadHeaderTimeout: time.Minute, IdleTimeout: 5 * time.Minute}
	go func() { _ = server.Serve(listener) }() // it ends with stop
	return func() { _ = server.Close() }, nil
}

func answerRequest(w http.ResponseWriter, r *http.Request) {
	at, _, err := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text := at + " " + r.Host + " " + r.URL.Path
	if websocket.IsWebSocketUpgrade(r) {
		answerSocket(w, r, text)
		return
	}
	if r.Header.Get(onceHeader) != "" {
		w.Header().Set("Connection", "close")
	}
	fmt.Fprint(w, text)
}

// answerSocket answers each message with the same text, and the message.
func answerSocket(w http.ResponseWriter, r *http.Request, text string) {
	upgrader := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }, ReadBufferSize: 1024, WriteBufferSize: 1024}
	c, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer func() { _ = c.Close() }() // the other side may be gone
	for {
		kind, message, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, []byte(text+" "+string(message))) != nil {
			return
		}
	}
}
