// Package words knows what other tracers call a thing: bpftrace, perf, SystemTap and DTrace on
// Solaris. Both front ends, D and bpftrace, use its one table for the hints of their messages.
package words
