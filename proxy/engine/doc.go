// Package engine runs a model.Config: it compiles it into a Snapshot, binds its servers, swaps the snapshot in with one
// atomic store, serves, and drains. A change touches what changed and nothing else; connections and exchanges in flight keep
// what they began with.
package engine
