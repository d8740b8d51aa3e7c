package words

import (
	"cmp"
	"strings"
)

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
		if own := eventInD(text); own != "" {
			return own
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
	if len(p) == 4 && p[0] == "profile" && p[3] != "" && p[3][0] >= '0' && p[3][0] <= '9' {
		return "profile-" + p[3]
	}
	return ""
}

// events are events of perf with the names that D has, by provider and the number of events.
//
// table: never changed
var events = map[string]string{
	"cycles": "hardware:::cpu-cycles-1000000", "cpu-cycles": "hardware:::cpu-cycles-1000000",
	"instructions": "hardware:::instructions-1000000", "branches": "hardware:::branch-instructions-1000000",
	"cache-misses":     "hardware:::cache-misses-10000",
	"cache-references": "hardware:::cache-references-100000",
	"branch-misses":    "hardware:::branch-misses-10000",
	"page-faults":      "software:::page-faults-1", "faults": "software:::page-faults-1",
	"major-faults": "software:::major-faults-1", "minor-faults": "software:::minor-faults-1",
	"context-switches": "software:::context-switches-1", "cs": "software:::context-switches-1",
	"cpu-migrations": "software:::cpu-migrations-1", "migrations": "software:::cpu-migrations-1",
	"cpu-clock": "profile-99", "task-clock": "profile-99",
}

// eventInD returns the description of D for an event of perf; "" if it is none.
func eventInD(name string) string { return events[name] }

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
	case p[0] == "c": // as BCC's tools name a function of libc
		return "uprobe:libc:" + p[1] + ":"
	case isWord(p[1]) && p[0] == "p": // as BCC's tools and ftrace name functions of the kernel
		return "fbt::" + p[1] + ":entry"
	case isWord(p[1]) && p[0] == "r":
		return "fbt::" + p[1] + ":return"
	case strings.Trim(p[1], "ukhp") == "": // an event of perf with modifiers
		return eventInD(p[0])
	}
	return ""
}

// isWord reports whether a text begins as a name does.
func isWord(s string) bool {
	return s != "" && (s[0] == '_' || s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z')
}

// ofBCC returns the description for a probe of BCC's tools: p:c:malloc, r::vfs_read.
func ofBCC(p []string) string {
	name, kind := "entry", "uprobe:"
	if p[0] == "r" {
		name, kind = "return", "uretprobe:"
	}
	switch file := p[1]; file {
	case "":
		return "fbt::" + p[2] + ":" + name
	case "c":
		return kind + "libc:" + p[2] + ":"
	default:
		return kind + file + ":" + p[2] + ":"
	}
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
	case "p", "r":
		if p[0] == "r" || p[1] != "hz" && p[1] != "s" && p[1] != "ms" && p[1] != "us" {
			return ofBCC(p)
		}
		return "profile-" + rate(p)
	case "profile":
		return "profile-" + rate(p)
	case "interval", "i", "timer":
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
	if own := strings.Split(eventInD(text), ":::"); len(own) == 2 {
		i := strings.LastIndexByte(own[1], '-')
		return own[0] + ":" + own[1][:i] + ":" + own[1][i+1:]
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
		return "uretprobe:" + cmp.Or(p[1], "FILE") + ":" + p[2]
	case strings.HasPrefix(provider, "pid"):
		return "uprobe:" + cmp.Or(p[1], "FILE") + ":" + p[2]
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
