// Package filters has the filters that Sluice brings along, the Registry that finds a kind by its name, and what turns a
// pipeline's flow into a chain. It also has the pieces that the engine puts around every chain: the address filter, the body
// limit, and the header fields that a path sets.
package filters
