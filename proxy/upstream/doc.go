// Package upstream has the live pools: the endpoints of an upstream with their health, their idle connections and their
// counts, and the forward step that sends an exchange to one endpoint after another as far as that is safe.
//
// A Pool is found by name once and stays the same when its endpoints change: the set of endpoints is swapped as a whole, and
// what is known of an endpoint survives by its address. Host names become endpoints by being looked up.
package upstream
