// Package route has the table that finds the rule for a request: by host, by path, by method, header fields and query, in
// the order of precedence that the kind of router asks for. A table is immutable, finds without allocation and in a time that
// grows neither with the hosts nor with the paths of a host, and is compiled from the table before it at the cost of what
// changed. It knows no socket, no filter and no pool: what a rule leads to is the caller's.
package route
