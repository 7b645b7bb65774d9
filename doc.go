// Package sluice is empty: it holds the test that keeps the floors of the project, which docs/architecture.md shows.
package sluice
