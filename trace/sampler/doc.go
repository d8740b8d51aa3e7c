// Package sampler gathers stacks: samples of what CPUs execute, and waits for CPUs and locks. It
// writes D programs that add up in the kernel and runs them in sessions of package trace.
package sampler
