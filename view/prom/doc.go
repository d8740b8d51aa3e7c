// Package prom implements Prometheus's HTTP API over a measure.Reader, with Prometheus's own query
// engine. docs/PROMETHEUS.md describes how statistics become metrics. The package stores no data,
// scrapes nothing and evaluates no rules.
package prom
