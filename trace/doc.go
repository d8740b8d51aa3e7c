// Package trace runs D scripts in the kernel: it loads their programs, attaches them, drains their
// records and reads their aggregations. It doesn't compile: packages below lang turn D into
// instructions, and never touch the kernel. Everything that it makes in the kernel hangs on file
// descriptors of this process, so nothing stays attached when the process ends, however it ends.
package trace
