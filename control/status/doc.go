// Package status holds what is said about each object: its problems, its conditions, and who serves it.
package status
