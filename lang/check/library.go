package check

import (
	"embed"
	"runtime"
	"strings"

	"culprit/lang/syntax"
)

// texts are the libraries of D, written in D. A file is read when a program uses one of its names,
// which its first comment lists after "declares:".
//
//go:embed lib/*.d
var texts embed.FS

// Library returns the texts of the libraries, one per file.
func Library() []string {
	files, err := texts.ReadDir("lib")
	if err != nil {
		panic(err) // it is compiled in
	}
	all := make([]string, len(files))
	for i, f := range files {
		data, err := texts.ReadFile("lib/" + f.Name())
		if err != nil {
			panic(err) // as above
		}
		all[i] = string(data)
	}
	return all
}

// A library is one of the texts.
type library struct {
	name, text string
}

// constants are the predefined numbers of D.
//
// table: name to number
var constants = map[string]int64{
	"NULL": 0,

	"DTRACEFLT_UNKNOWN": 0, "DTRACEFLT_BADADDR": 1, "DTRACEFLT_BADALIGN": 2, "DTRACEFLT_ILLOP": 3,
	"DTRACEFLT_DIVZERO": 4, "DTRACEFLT_NOSCRATCH": 5,
	"DTRACEFLT_KPRIV": 6, "DTRACEFLT_UPRIV": 7, "DTRACEFLT_TUPOFLOW": 8, "DTRACEFLT_BADSTACK": 9,
	"DTRACEFLT_BADINDEX": 10, "DTRACEFLT_BADSIZE": 11,

	"AF_UNSPEC": 0, "AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10, "AF_NETLINK": 16, "AF_PACKET": 17,
	"AF_VSOCK":    40,
	"SOCK_STREAM": 1, "SOCK_DGRAM": 2, "SOCK_RAW": 3, "SOCK_SEQPACKET": 5, "IPPROTO_IP": 0,
	"IPPROTO_ICMP": 1, "IPPROTO_TCP": 6, "IPPROTO_UDP": 17, "IPPROTO_IPV6": 41,
	"ARPHRD_ETHER": 1, "ARPHRD_INFINIBAND": 32,

	"PR_MODEL_ILP32": 1, "PR_MODEL_LP64": 2,
	"PR_STOPPED": 1, "PR_ISTOP": 2, "PR_DSTOP": 4, "PR_STEP": 8, "PR_ASLEEP": 16, "PR_PCINVAL": 32,
	"PR_ASLWP": 64, "PR_AGENT": 128, "PR_DETACH": 256, "PR_DAEMON": 512, "PR_IDLE": 1024,
	"SSLEEP": 1, "SRUN": 2, "SZOMB": 3, "SSTOP": 4, "SIDL": 5, "SONPROC": 6, "SWAIT": 7,
	"CLD_EXITED": 1, "CLD_KILLED": 2, "CLD_DUMPED": 3, "CLD_TRAPPED": 4, "CLD_STOPPED": 5,
	"CLD_CONTINUED": 6,

	"B_PAGEIO": 0x10, "B_PHYS": 0x20, "B_READ": 0x40, "B_WRITE": 0x100, "B_ASYNC": 0x400,
	"O_RDONLY": 0, "O_WRONLY": 1, "O_RDWR": 2, "O_ACCMODE": 3, "O_CREAT": 0o100, "O_EXCL": 0o200,
	"O_TRUNC": 0o1000, "O_APPEND": 0o2000, "O_NONBLOCK": 0o4000, "O_NDELAY": 0o4000,
	"O_DSYNC": 0o10000, "O_SYNC": 0o4010000, "O_RSYNC": 0o4010000, "O_CLOEXEC": 0o2000000,

	"TCP_STATE_ESTABLISHED": 1, "TCP_STATE_SYN_SENT": 2, "TCP_STATE_SYN_RECEIVED": 3,
	"TCP_STATE_FIN_WAIT_1": 4, "TCP_STATE_FIN_WAIT_2": 5, "TCP_STATE_TIME_WAIT": 6,
	"TCP_STATE_CLOSED": 7, "TCP_STATE_CLOSE_WAIT": 8, "TCP_STATE_LAST_ACK": 9,
	"TCP_STATE_LISTEN": 10, "TCP_STATE_CLOSING": 11,
	"TH_FIN": 1, "TH_SYN": 2, "TH_RST": 4, "TH_PUSH": 8, "TH_ACK": 16, "TH_URG": 32, "TH_ECE": 64,
	"TH_CWR": 128,

	"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGIOT": 6,
	"SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9, "SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12,
	"SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15,
	"SIGSTKFLT": 16, "SIGCHLD": 17, "SIGCLD": 17, "SIGCONT": 18, "SIGSTOP": 19, "SIGTSTP": 20,
	"SIGTTIN": 21, "SIGTTOU": 22, "SIGURG": 23, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGVTALRM": 26,
	"SIGPROF": 27, "SIGWINCH": 28, "SIGIO": 29, "SIGPOLL": 29, "SIGPWR": 30, "SIGSYS": 31,

	"EPERM": 1, "ENOENT": 2, "ESRCH": 3, "EINTR": 4, "EIO": 5, "ENXIO": 6, "E2BIG": 7, "ENOEXEC": 8,
	"EBADF": 9, "ECHILD": 10, "EAGAIN": 11, "EWOULDBLOCK": 11, "ENOMEM": 12, "EACCES": 13,
	"EFAULT": 14, "ENOTBLK": 15, "EBUSY": 16, "EEXIST": 17, "EXDEV": 18, "ENODEV": 19,
	"ENOTDIR": 20, "EISDIR": 21, "EINVAL": 22, "ENFILE": 23, "EMFILE": 24, "ENOTTY": 25,
	"ETXTBSY": 26, "EFBIG": 27, "ENOSPC": 28, "ESPIPE": 29, "EROFS": 30, "EMLINK": 31, "EPIPE": 32,
	"EDOM": 33, "ERANGE": 34, "EDEADLK": 35, "ENAMETOOLONG": 36, "ENOLCK": 37, "ENOSYS": 38,
	"ENOTEMPTY": 39, "ELOOP": 40,
	"ENOMSG": 42, "EIDRM": 43, "ENOSTR": 60, "ENODATA": 61, "ETIME": 62, "ENOSR": 63, "EREMOTE": 66,
	"ENOLINK": 67, "ECOMM": 70, "EPROTO": 71, "EMULTIHOP": 72, "EBADMSG": 74, "EOVERFLOW": 75,
	"EILSEQ": 84, "EUSERS": 87,
	"EDESTADDRREQ": 89, "EMSGSIZE": 90, "EPROTOTYPE": 91, "ENOPROTOOPT": 92, "EPROTONOSUPPORT": 93,
	"ESOCKTNOSUPPORT": 94, "EOPNOTSUPP": 95, "ENOTSUP": 95, "EPFNOSUPPORT": 96, "EAFNOSUPPORT": 97,
	"ENETRESET": 102, "ESHUTDOWN": 108, "ETOOMANYREFS": 109, "ESTALE": 116, "EDQUOT": 122,
	"ECANCELED": 125,
	"ENOTSOCK":  88, "EADDRINUSE": 98, "EADDRNOTAVAIL": 99, "ENETDOWN": 100, "ENETUNREACH": 101,
	"ECONNABORTED": 103, "ECONNRESET": 104, "ENOBUFS": 105, "EISCONN": 106, "ENOTCONN": 107,
	"ETIMEDOUT": 110, "ECONNREFUSED": 111, "EHOSTDOWN": 112, "EHOSTUNREACH": 113, "EALREADY": 114,
	"EINPROGRESS": 115,
}

// mostRegister is the highest number of uregs[].
const mostRegister = 33

// registers returns the numbers of uregs[] by the names of DTrace on Linux.
func registers() map[string]int64 {
	if runtime.GOARCH == "arm64" {
		out := map[string]int64{"R_SP": 31, "R_PC": 32, "R_PSTATE": 33, "R_FP": 29}
		for i := range int64(31) {
			out["R_X"+string(itoa(i))] = i
		}
		return out
	}
	return map[string]int64{
		"R_R15": 0, "R_R14": 1, "R_R13": 2, "R_R12": 3, "R_RBP": 4, "R_EBP": 4, "R_FP": 4,
		"R_RBX": 5, "R_EBX": 5, "R_R1": 5, "R_R11": 6, "R_R10": 7, "R_R9": 8, "R_R8": 9,
		"R_RAX": 10, "R_EAX": 10, "R_R0": 10, "R_RCX": 11, "R_ECX": 11, "R_RDX": 12, "R_EDX": 12,
		"R_RSI": 13, "R_ESI": 13, "R_RDI": 14, "R_EDI": 14, "R_ERR": 15, "R_RIP": 16, "R_EIP": 16,
		"R_PC": 16,
		"R_CS": 17, "R_RFL": 18, "R_EFL": 18, "R_PS": 18, "R_RSP": 19, "R_ESP": 19, "R_SP": 19,
		"R_SS": 20, "R_DS": 21, "R_ES": 22, "R_FS": 23, "R_GS": 24, "R_TRAPNO": 25,
	}
}

// threadRegisters returns the members of struct thread_struct that contain registers missing in
// struct pt_regs, by the numbers of uregs[].
func threadRegisters() map[int64]string {
	if runtime.GOARCH == "arm64" {
		return nil
	}
	return map[int64]string{21: "ds", 22: "es", 23: "fsbase", 24: "gsbase", 25: "trap_nr"}
}

func itoa(n int64) string {
	if n >= 10 {
		return itoa(n/10) + string(rune('0'+n%10))
	}
	return string(rune('0' + n))
}

// libraryIdent returns the meaning of a name of D's libraries: a number, or the library that
// declares it; nil: none.
func libraryIdent(name string) any {
	if n, ok := constants[name]; ok {
		return n
	}
	if strings.HasPrefix(name, "R_") {
		if n, ok := registers()[name]; ok {
			return n
		}
	}
	if lib := libraries()[name]; lib != nil {
		return lib
	}
	return nil
}

// libraries returns the libraries by the names that they declare.
func libraries() map[string]*library {
	out := map[string]*library{}
	files, err := texts.ReadDir("lib")
	if err != nil {
		return out
	}
	for _, f := range files {
		data, err := texts.ReadFile("lib/" + f.Name())
		if err != nil {
			continue
		}
		lib := &library{name: f.Name(), text: string(data)}
		first, _, _ := strings.Cut(lib.text, "*/")
		_, list, _ := strings.Cut(first, "declares:")
		for _, name := range strings.Fields(strings.TrimSuffix(strings.TrimSpace(list), "*/")) {
			out[name] = lib
		}
	}
	return out
}

// library returns the meaning of a name of D's libraries; nil: none.
func (c *checker) library(name string) *ident {
	switch v := libraryIdent(name).(type) {
	case int64:
		id := &ident{kind: identEnum, name: name, t: tInt, value: v}
		c.funcs[name] = id
		return id
	case *library:
		c.load(v)
		return c.funcs[name]
	}
	return nil
}

// libraryType declares a type of D's libraries, and reports whether there is one.
func (c *checker) libraryType(name string) bool {
	lib := libraries()[name]
	if lib == nil {
		return false
	}
	c.load(lib)
	_, ok := c.types.named[name]
	return ok
}

// load declares everything in a library, once.
func (c *checker) load(lib *library) {
	if c.loaded[lib.name] {
		return
	}
	c.loaded[lib.name] = true
	prog, ds := syntax.Displaced(c.o.Namespace.within(lib.text), syntax.Mode{File: lib.name})
	if ds != nil {
		c.fail(c.use, NotYet, "", "the library %s: %v", lib.name, ds)
		return
	}
	outer, keys := c.lib, c.keys
	c.lib, c.keys = lib, nil
	for _, item := range prog.Items {
		switch item := item.(type) {
		case *syntax.Declaration:
			c.declaration(item)
		case *syntax.Inline:
			c.inline(item)
		case *syntax.Translator:
			c.translator(item)
		}
	}
	c.lib, c.keys = outer, keys
}
