// Package chaos is a proxy in front of a real API server that misbehaves by script, as networks and API servers do: it cuts,
// delays, reorders, duplicates and expires watches, answers with errors of any status, hangs, and loses answers. Credentials pass
// through. Scripts are data, and a script with a seed does the same each time it meets the same requests.
//
// It never does what an API server never does: events of one object keep their order, and none is left out of a watch that goes on.
package chaos
