// Package complete finds what may be written at a place of a D program, and lists probes. It reads
// the probes and types of this machine, and runs nothing.
package complete
