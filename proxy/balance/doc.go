// Package balance picks one of n endpoints. It knows a number, a weight, a count of requests in flight and a hash for each,
// and nothing of addresses, health or connections: who must not be picked, because it is ejected or was tried before, is
// said by a function at each pick.
package balance
