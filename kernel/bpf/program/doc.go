// Package program contains the fixed BPF programs, in C, and their objects, which are compiled by
// bpf2go and part of the repository: a build of culprit needs no compiler of C. After a change of a
// .c or .h file, run
//
//	make bpf
//
// which needs clang 14 and the headers of libbpf. A test compiles the programs again and compares.
// All programs find the members of the kernel's structs when they are loaded (CO-RE).
package program

//go:generate ./compile Tasks tasks.c .
//go:generate ./compile Connections connections.c .
//go:generate ./compile Handlers handlers.c .
//go:generate ./compile Devices devices.c .
//go:generate ./compile Symbols symbols.c .
//go:generate ./compile Memory memory.c .
