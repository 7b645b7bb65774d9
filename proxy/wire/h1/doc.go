// Package h1 speaks HTTP/1.1 and HTTP/1.0 (RFC 9112) on both sides: Server reads requests and writes responses, Client the
// other way round. It is strict: what two readers could understand in two ways is refused, never guessed.
//
// A head is read into the connection's buffer, becomes one string, and its fields are slices of that. Deadlines are moved only when they
// are off by more than a quarter, buffers and field arrays are reused, and an exchange without a request body needs no
// goroutine but the connection's own.
package h1
