// Package e2e tests Sluice against a real API server: what it reads, serves and writes back, under its own RBAC, through changes,
// restarts and faults.
package e2e
