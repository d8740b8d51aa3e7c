// Package pyroscope sends the samples of a recording to servers of Pyroscope's HTTP API: a profile
// per service and 15 seconds.
package pyroscope
