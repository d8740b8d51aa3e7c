// Package network collects the counters of network devices, protocols, TCP connections and the
// kernel's network tables, for each network namespace of Env.Netns.
package network
