package words

import "strings"

// systemCalls are the names of system calls on Solaris and of wrappers in libc, with those of
// Linux.
//
// table: never changed
var systemCalls = map[string]string{
	"exece": "execve", "exec": "execve", "open64": "openat", "openat64": "openat", "creat64": "creat",
	"pread": "pread64", "pwrite": "pwrite64", "stat": "newstat", "stat64": "newstat",
	"lstat": "newlstat", "lstat64": "newlstat", "fstat": "newfstat", "fstat64": "newfstat",
	"fstatat": "newfstatat", "fstatat64": "newfstatat", "forksys": "clone", "fork1": "clone",
	"forkall": "clone", "rexit": "exit_group", "lwp_create": "clone", "lwp_exit": "exit",
	"lwp_park": "futex", "lwp_kill": "tgkill", "lwp_sigmask": "rt_sigprocmask", "pollsys": "ppoll",
	"portfs": "epoll_wait", "send": "sendto", "recv": "recvfrom", "getdents64": "getdents64",
	"sigaction": "rt_sigaction", "sigprocmask": "rt_sigprocmask", "sigsuspend": "rt_sigsuspend",
	"waitid": "waitid", "waitsys": "wait4", "waitpid": "wait4", "wait": "wait4", "mmap64": "mmap",
	"sleep": "clock_nanosleep", "gtime": "time", "yield": "sched_yield", "uname": "newuname",
	"lseek64": "lseek", "llseek": "lseek", "clone3": "clone3", "sendfile": "sendfile64",
	"umount": "umount2", "memcntl": "madvise", "fdsync": "fsync", "fcntl64": "fcntl",
}

// SystemCall returns the name of a system call on Linux for one of Solaris or libc; "" if it is not
// in the table.
func SystemCall(name string) string { return systemCalls[name] }

// kinds are providers of bpftrace for functions of the kernel, with the name of D.
//
// table: never changed
var kinds = map[string]string{
	"kprobe": "entry", "k": "entry", "kretprobe": "return", "kr": "return", "fentry": "entry",
	"kfunc": "entry", "f": "entry", "fexit": "return", "kretfunc": "return", "fr": "return",
}

// ProbeInD returns the description of D for a probe of bpftrace, perf or SystemTap: fbt::F:entry
// for kprobe:F. It returns "" for a text that it does not know, such as a description of D.
func ProbeInD(text string) string {
	p := strings.Split(text, ":")
	if len(p) == 1 {
		switch text {
		case "begin":
			return "BEGIN"
		case "end":
			return "END"
		}
		f, _ := ForeignProbe(D, text)
		return f.Own
	}
	if name, ok := kinds[p[0]]; ok && (len(p) == 2 || len(p) == 3 && p[0] != "k") {
		module := ""
		if len(p) == 3 {
			module = p[1]
		}
		return "fbt:" + module + ":" + p[len(p)-1] + ":" + name
	}
	if p[0] == "cpc" {
		return counterInD(p[len(p)-1])
	}
	if len(p) == 2 {
		return two(p)
	}
	if len(p) == 3 {
		return three(p)
	}
	return ""
}

// two returns the description for a probe of two parts.
func two(p []string) string {
	if p[0] == "syscalls" { // as perf has it
		return enterOrExit(p[1])
	}
	switch {
	case p[0] == "rawtracepoint", p[0] == "rt":
		return "rawtp:::" + p[1]
	case p[0] == "software", p[0] == "hardware", p[0] == "s", p[0] == "h":
		kind := map[string]string{"s": "software", "h": "hardware"}[p[0]]
		if kind == "" {
			kind = p[0]
		}
		return kind + ":::" + p[1] + "-1"
	case p[0] == "profile" || p[0] == "p" || p[0] == "interval" || p[0] == "i":
		return ""
	}
	return ""
}

// three returns the description for a probe of three parts.
func three(p []string) string {
	switch p[0] {
	case "tracepoint", "t":
		if d := enterOrExit(p[2]); d != "" && p[1] == "syscalls" {
			return d
		}
		return "tracepoint:" + p[1] + "::" + p[2]
	case "rawtracepoint", "rt":
		return "rawtp:" + p[1] + "::" + p[2]
	case "uprobe", "u":
		return "uprobe:" + p[1] + ":" + p[2] + ":"
	case "uretprobe", "ur":
		return "uretprobe:" + p[1] + ":" + p[2] + ":"
	case "usdt", "U":
		return "usdt:" + p[1] + ":*:" + p[2]
	case "software", "s":
		return "software:::" + p[1] + "-" + p[2]
	case "hardware", "h":
		return "hardware:::" + p[1] + "-" + p[2]
	case "profile", "p":
		return "profile-" + rate(p)
	case "interval", "i":
		return "tick-" + rate(p)
	case "sdt":
		return "sdt:" + p[1] + "::" + p[2]
	case "syscall":
		return "syscall::" + p[1] + ":" + p[2]
	}
	return ""
}

// counterInD returns the description of D here for a name of Solaris's provider cpc: the event, the
// mode and the number of events, cpu_clk-all-10000.
func counterInD(name string) string {
	event, _, _ := strings.Cut(name, "-")
	count := name[strings.LastIndexByte(name, '-')+1:]
	switch {
	case containsAny(event, "clk", "cyc"):
		event = "cycles"
	case containsAny(event, "ins"):
		event = "instructions"
	case containsAny(event, "br_msp", "br_miss", "mispred"):
		event = "branch-misses"
	case containsAny(event, "tcm", "dcm", "icm", "miss"):
		event = "cache-misses"
	default:
		return ""
	}
	return "hardware:::" + event + "-" + count
}

func containsAny(s string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(strings.ToLower(s), p) {
			return true
		}
	}
	return false
}

// enterOrExit returns the description of D for the event of a system call: syscall::read:entry
// for sys_enter_read.
func enterOrExit(event string) string {
	if call, ok := strings.CutPrefix(event, "sys_enter_"); ok {
		return "syscall::" + call + ":entry"
	}
	if call, ok := strings.CutPrefix(event, "sys_exit_"); ok {
		return "syscall::" + call + ":return"
	}
	return ""
}

// rate returns the rate or interval of a timer: 99 for hz:99, 10ms for ms:10.
func rate(p []string) string {
	if p[1] == "hz" {
		return p[2]
	}
	return p[2] + p[1]
}

// ProbeInBpftrace returns the probe of bpftrace for a description of D or perf: kprobe:F for
// fbt::F:entry. It returns "" for a text that it does not know.
func ProbeInBpftrace(text string) string {
	if count, ok := strings.CutPrefix(text, "tick-"); ok {
		return timer("interval", count)
	}
	if count, ok := strings.CutPrefix(text, "profile-"); ok {
		return timer("profile", count)
	}
	if text == "dtrace:::BEGIN" || text == "dtrace:::END" {
		return strings.TrimPrefix(text, "dtrace:::")
	}
	p := strings.Split(text, ":")
	if len(p) == 2 && p[0] != "" && p[1] != "" {
		return "tracepoint:" + text // as perf has it
	}
	if len(p) != 4 {
		return ""
	}
	returns := p[3] == "return"
	switch provider := p[0]; {
	case provider == "fbt" && returns:
		return "kretprobe:" + p[2]
	case provider == "fbt":
		return "kprobe:" + p[2]
	case provider == "syscall" && (p[2] == "" || p[2] == "*"):
		if returns {
			return "tracepoint:raw_syscalls:sys_exit"
		}
		return "tracepoint:raw_syscalls:sys_enter"
	case provider == "syscall" && returns:
		return "tracepoint:syscalls:sys_exit_" + p[2]
	case provider == "syscall":
		return "tracepoint:syscalls:sys_enter_" + p[2]
	case provider == "sdt":
		return "tracepoint:" + p[1] + ":" + p[3]
	case strings.HasPrefix(provider, "pid") && returns:
		return "uretprobe:" + p[1] + ":" + p[2]
	case strings.HasPrefix(provider, "pid"):
		return "uprobe:" + p[1] + ":" + p[2]
	}
	return stable[p[0]+":::"+p[3]]
}

// timer returns a timer of bpftrace for the rate or interval of D: 99, 99hz, 10ms, 1s.
func timer(kind, count string) string {
	digits := strings.TrimRight(count, "abcdefghijklmnopqrstuvwxyz")
	unit := strings.TrimSuffix(count[len(digits):], "ec")
	if unit == "" {
		unit = "hz"
	}
	if digits == "" {
		return ""
	}
	return kind + ":" + unit + ":" + digits
}

// stable are probes of D's stable providers, with the tracepoints that bpftrace has for them.
//
// table: never changed
var stable = map[string]string{
	"io:::start": "tracepoint:block:block_rq_issue", "io:::done": "tracepoint:block:block_rq_complete",
	"sched:::on-cpu": "tracepoint:sched:sched_switch", "sched:::off-cpu": "tracepoint:sched:sched_switch",
	"sched:::wakeup":      "tracepoint:sched:sched_wakeup",
	"proc:::exec-success": "tracepoint:sched:sched_process_exec",
	"proc:::exec":         "tracepoint:syscalls:sys_enter_execve",
	"proc:::create":       "tracepoint:sched:sched_process_fork",
	"proc:::start":        "tracepoint:sched:sched_process_fork",
	"proc:::exit":         "tracepoint:sched:sched_process_exit",
	"proc:::signal-send":  "tracepoint:signal:signal_generate",
	"tcp:::state-change":  "tracepoint:sock:inet_sock_set_state",
	"vminfo:::maj_fault":  "software:major-faults:1", "vminfo:::as_fault": "software:page-faults:1",
}
