// Package h2 serves HTTP/2 to clients (RFC 9113) over the implementation of net/http: it turns its requests into the same
// message.Stream that wire/h1 makes, by the same rules. It knows no route and no filter.
package h2
