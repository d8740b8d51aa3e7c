// Package probe finds the probes of the running kernel and its processes and the types of their
// arguments, and attaches BPF programs to them.
package probe
