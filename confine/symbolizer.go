package confine

import (
	"github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// forSymbolizer is all that a symbolizer needs: what a worker needs, positioned reads of the files
// that it is given, and messages that carry them.
func forSymbolizer() []string {
	return append(forWorker(),
		"getpeername", "getsockname", "getsockopt", "lseek", "newfstatat", "pread64", "preadv",
		"recvmsg", "sendmsg", "shutdown",
	)
}

// SymbolizerCalls limits this process to the system calls of a symbolizer: it can read and write
// what is open, receive descriptors, take memory that is not executable, and start threads. The
// error is as that of ServerCalls.
func SymbolizerCalls() error {
	return allow(forSymbolizer(), []seccomp.NameWithConditions{
		arg("mmap", 2, seccomp.BitsNotSet, unix.PROT_EXEC),
		arg("mprotect", 2, seccomp.BitsNotSet, unix.PROT_EXEC),
	})
}
