// Package admin answers operators over HTTP: is it alive, is it ready, what does it count, what does it run, and why does a
// request get its answer. Health and metrics are for everyone who can connect; all else is for programs on the same machine.
package admin
