// Package trace puts programs into the running kernel, drains them and takes them out again. It knows which probes there are
// (providers), attaches to them by whichever road this kernel has, and tells what could not be had and why. It doesn't compile:
// package lang turns D into instructions, and never touches the kernel. Everything that it makes in the kernel hangs on file
// descriptors of this process, so that nothing stays attached when the process ends, however it ends.
package trace
