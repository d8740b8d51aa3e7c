// Package connection collects the counters of TCP connections and listeners, by the process that
// has them open, for each network namespace of Env.Netns.
package connection
