// Package canon puts the host and the path of a request into the one form that matching, filters, logs and the forwarded
// target all use, and puts what rules say about hosts and paths into the same form. It has one table of characters and one
// loop for both, so that a rule and a request that mean the same are the same string. The query has no canonical form: it
// is forwarded byte for byte.
package canon
