// Package loop turns the wheel of the control plane: wait for a change, translate, apply, report. While one batch runs the next
// gathers; there is no minimum interval. It knows no API and no engine.
package loop
