// Package trace runs D scripts in the kernel: it loads their programs, attaches them, drains their
// records and reads their aggregations. The packages below lang compile D to instructions without
// access to the kernel. All objects in the kernel belong to file descriptors of this process, so
// nothing stays attached when the process ends, even when it is killed.
package trace
