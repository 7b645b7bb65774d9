// Package scale measures Sluice with many objects in a real API server: how soon it is ready, what it takes of memory and CPU, and how
// soon a change is served, while requests go on. Its figures stand beside the bars that the project sets itself and what others publish.
package scale
