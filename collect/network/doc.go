// Package network collects the counters of network devices, their queueing disciplines and drivers,
// protocols, and the kernel's network tables, for each network namespace of Env.Netns.
package network
