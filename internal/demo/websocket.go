package main

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"time"
)

// The opcodes of RFC 6455 §5.2 that matter here.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

// serveWebSocket greets; then it echoes every message, or, asked for /hello, says goodbye.
func serveWebSocket(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Sec-WebSocket-Key")
	hijacker, ok := w.(http.Hijacker)
	if !ok || key == "" {
		http.Error(w, "no WebSocket handshake", http.StatusBadRequest)
		return
	}
	conn, buffer, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	buffer.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n")
	writeFrame(buffer.Writer, opText, []byte("Hello from blue, over a WebSocket.\n"))
	if r.URL.Path == "/hello" {
		writeFrame(buffer.Writer, opClose, []byte{0x03, 0xe8}) // 1000: normal
		buffer.Flush()
		return
	}
	buffer.Flush()
	echo(conn, buffer)
}

func echo(conn net.Conn, buffer *bufio.ReadWriter) {
	for {
		conn.SetReadDeadline(time.Now().Add(10 * time.Minute))
		op, payload, err := readFrame(buffer.Reader)
		if err != nil {
			return
		}
		if op == opPing {
			op = opPong
		}
		writeFrame(buffer.Writer, op, payload)
		if buffer.Flush() != nil || op == opClose {
			return
		}
	}
}

// writeFrame writes a whole message of up to 64 KiB (RFC 6455 §5.2).
func writeFrame(w *bufio.Writer, op byte, payload []byte) {
	w.WriteByte(0x80 | op)
	if len(payload) < 126 {
		w.WriteByte(byte(len(payload)))
	} else {
		w.Write(binary.BigEndian.AppendUint16([]byte{126}, uint16(len(payload))))
	}
	w.Write(payload)
}

// readFrame reads a frame of up to 64 KiB and takes its mask off.
func readFrame(r *bufio.Reader) (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	length := int(head[1] & 0x7f)
	if length == 127 {
		return 0, nil, http.ErrContentLength
	}
	if length == 126 {
		var long [2]byte
		if _, err := io.ReadFull(r, long[:]); err != nil {
			return 0, nil, err
		}
		length = int(binary.BigEndian.Uint16(long[:]))
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, mask[:]); err != nil {
			return 0, nil, err
		}
	}
	payload = make([]byte, length)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return head[0] & 0x0f, payload, nil
}
