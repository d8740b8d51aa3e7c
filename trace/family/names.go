package family

import (
	"strconv"
	"sync"
	"time"

	"culprit/kernel"
	"culprit/kernel/netlink"
	"culprit/trace/probe"

	"golang.org/x/sys/unix"
)

// A naming converts numbers of a program to words of statistics. Different numbers have different
// words.
type naming struct {
	say  func(number int64) string
	text func(key string) string // of keys that are no numbers; nil: they stay as they are
	// all numbers that have a word; nil: they change, so that the kernel cannot select by words
	all func(yield func(number int64, word string) bool)
}

// namingOf returns the naming with a name, or nil.
func namingOf(name string) *naming {
	switch name {
	case "syscall":
		return &naming{say: probe.SyscallName, all: probe.EachSyscall}
	case "errno":
		return &naming{say: errnoName, all: eachErrno}
	case "request":
		// enum req_op in include/linux/blk_types.h
		return few(
			"read", "write", "flush", "discard", "", "secure-erase", "", "zone-append", "",
			"write-zeroes",
		)
	case "exit":
		return few("", "exited", "killed", "dumped") // CLD_EXITED ...
	case "netns":
		return &naming{say: (&netnsNames{}).name}
	case "side":
		return few("client", "server")
	case "direction":
		return few("rx", "tx")
	case "signal":
		return &naming{say: signalName, all: eachSignal}
	case "dropreason":
		return dropReasons()
	case "protocol":
		return packetProtocols()
	case "dnscode":
		// RFC 1035, 4.1.1, and RFC 2136, 2.2
		return few("NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN",
			"YXRRSET", "NXRRSET", "NOTAUTH", "NOTZONE")
	case "function":
		return kernelFunctions()
	}
	return nil
}

// netnsNames names network namespaces by their inodes, as collectors do. Safe for concurrent use.
type netnsNames struct {
	mu     sync.Mutex
	names  map[uint64]string
	listed time.Time
}

// netnsEach is the pause between two lists of namespaces: a list reads all processes.
const netnsEach = 10 * time.Second

// name returns the name of a namespace: "" for the own one, its name, pid:NUMBER of a process in
// it, net:INODE without a visible process, or "unknown" for 0.
func (n *netnsNames) name(inode int64) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	net := uint64(inode)
	if net == 0 { // a packet of neither a socket nor an interface
		return "unknown"
	}
	name, known := n.names[net]
	if !known && time.Since(n.listed) > netnsEach {
		n.names = map[uint64]string{}
		all, _ := netlink.Namespaces(kernel.Root{}, 0) // with an error some are missing
		for _, ns := range all {
			n.names[ns.Inode] = ns.Name
		}
		n.listed = time.Now()
		name, known = n.names[net]
	}
	if !known {
		return "net:" + strconv.FormatUint(net, 10)
	}
	return name
}

// few returns a naming of the first numbers, from 0 on. A number with the word "" has none.
func few(words ...string) *naming {
	return &naming{
		say: func(n int64) string {
			if n >= 0 && n < int64(len(words)) && words[n] != "" {
				return words[n]
			}
			return strconv.FormatInt(n, 10)
		},
		all: func(yield func(int64, string) bool) {
			for n, w := range words {
				if w != "" && !yield(int64(n), w) {
					return
				}
			}
		},
	}
}

func signalName(n int64) string {
	if name := unix.SignalName(unix.Signal(n)); name != "" {
		return name
	}
	if n >= 34 && n <= lastSignal { // as in kill -l: the C library reserves 32 and 33
		return "SIGRT" + strconv.FormatInt(n-34, 10)
	}
	return strconv.FormatInt(n, 10)
}

// lastSignal is _NSIG.
const lastSignal = 64

func eachSignal(yield func(int64, string) bool) {
	for n := int64(1); n <= lastSignal; n++ {
		if !yield(n, signalName(n)) {
			return
		}
	}
}

// word returns the word for a number in a key.
func (n *naming) word(key string) string {
	if n.text != nil {
		return n.text(key)
	}
	number, err := strconv.ParseInt(key, 10, 64)
	if err != nil {
		return key
	}
	return n.say(number)
}

// noError is the word for a system call that returned no error.
const noError = "none"

func errnoName(n int64) string {
	if n == 0 {
		return noError
	}
	switch n { // a signal interrupts the call; programs do not see these (include/linux/errno.h)
	case 512:
		return "ERESTARTSYS"
	case 513:
		return "ERESTARTNOINTR"
	case 514:
		return "ERESTARTNOHAND"
	case 516:
		return "ERESTART_RESTARTBLOCK"
	}
	if name := unix.ErrnoName(unix.Errno(n)); name != "" {
		return name
	}
	return strconv.FormatInt(n, 10)
}

func eachErrno(yield func(int64, string) bool) {
	for n := int64(0); n < 4096; n++ { // MAX_ERRNO
		if !yield(n, errnoName(n)) {
			return
		}
	}
}
