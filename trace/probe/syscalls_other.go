//go:build !amd64 && !arm64

package probe

// table: no names of system calls are known on this processor.
var syscallNames []string

// table: nor are those of 32-bit processes
var narrowSyscalls []string
