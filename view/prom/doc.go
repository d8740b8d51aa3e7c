// Package prom speaks Prometheus: its HTTP API and its query language, by Prometheus's own engine, over a measure.Reader.
// Statistics become metrics as docs/PROMETHEUS.md tells. It keeps no data and no state of its own, scrapes nothing, and
// evaluates no rules.
package prom
