// Package cases is the fault lab: it makes small networks of hosts out of network namespaces, loads
// them until something is truly wrong with them, and says who is guilty, so that the diagnosis can
// be tried against the truth. Every sick scene has a healthy twin on which the diagnosis must be
// silent.
//
// The lab drives the built program from outside, as a user does, and imports none of its packages.
// It needs root, and the tools ip, tc and ethtool; it changes nothing outside its own namespaces,
// its own cgroups (named after the run) and its own folder in /var/tmp, and sends no traffic beyond
// its namespaces and loopback.
//
// Whatever a run makes bears its name ("culab" and the process's id): namespaces, cgroups, the
// folder, and each process by a word in its environment. That name is all that is needed to remove
// it, so it is removed in every case: when the run ends, by a guardian process when the run is
// killed, and by the next run when the guardian was killed too.
package cases
