// Package sampler gathers stacks: samples of what CPUs execute, and waits for CPUs and locks. It
// generates D programs that add up stacks in the kernel, and runs them in sessions of package
// trace.
package sampler
