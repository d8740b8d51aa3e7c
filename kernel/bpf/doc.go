// Package bpf loads and attaches BPF programs, reads the kernel's own types (BTF), and contains the
// fixed programs of culprit: threads, connections, interrupt handlers, symbols and kernel memory.
package bpf
