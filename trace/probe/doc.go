// Package probe knows which probes the running kernel and its processes have, what their arguments
// are, and how BPF programs are attached to them.
package probe
