// Package certs chooses what a TLS server presents: the entry that a server name selects, its certificates by key type, and
// whether the client must show one of its own. Certificates change without a listener or a connection being touched, and the last
// good one of a name stays while its object is broken. It knows files and API objects no more than the rest of the data plane.
package certs
