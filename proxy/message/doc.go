// Package message is the one form that an HTTP message has inside the data plane, whatever version of the protocol it came
// in or goes out by. Heads are ordered lists of fields, framing is typed, bodies are pulled. It knows no wire format, no
// socket and no configuration.
package message
