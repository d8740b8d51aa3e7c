// Package engine reads what culprit servers sent to a time series database that speaks Prometheus's
// query API: Prometheus, VictoriaMetrics, Mimir, Thanos. A Host is a measure.Reader, so that tools
// and the diagnosis use an engine as they use the archive.
package engine
