// Package remotewrite sends what is recorded to receivers of Prometheus's remote write, version
// 1.0. It decides how samples are sent, not which metrics: its caller does.
package remotewrite
