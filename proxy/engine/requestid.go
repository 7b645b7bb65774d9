package engine

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"

	"sluice.dev/sluice/proxy/message"
)

// maxRequestID bounds what a trusted peer may send as an id; a longer one is replaced.
const maxRequestID = 128

// newRequestID returns 128 random bits in hexadecimal. The generator is seeded by the system and good enough to be unique;
// an id is no secret.
func newRequestID() string {
	var raw [16]byte
	var text [32]byte
	binary.NativeEndian.PutUint64(raw[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(raw[8:], rand.Uint64())
	hex.Encode(text[:], raw[:])
	return string(text[:])
}

// requestID is the id of a request: the one that a trusted peer gave it, else a new one.
func requestID(p *peer, h *message.Header) string {
	if p.trusted {
		if id, _ := h.Value(message.XRequestID); id != "" && len(id) <= maxRequestID {
			return id
		}
	}
	return newRequestID()
}
