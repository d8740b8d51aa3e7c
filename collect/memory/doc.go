// Package memory collects the kernel's counters of memory, paging and its own caches.
package memory
