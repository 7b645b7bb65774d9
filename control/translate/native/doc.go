// Package native turns the objects that users write for Sluice itself, HTTPServer and Pipeline, into parts of a Config, one object
// at a time, so that an object that did not change keeps what it became.
package native
