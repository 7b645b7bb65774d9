// Package translate turns a view of the store into a Config and a Report. It is pure: no clock, no I/O, no log. A Translator does so
// for view after view and keeps what did not change.
package translate
