// Package filter is the contract between the engine and what it does to a request: the Exchange, the Filter and the Kind of
// one, and the Chain that runs a flow. It knows no filter, no pool and no wire.
package filter
