package words

import "strings"

// A Language is a front end: how its users write.
type Language uint8

// The languages.
const (
	D Language = iota
	Bpftrace
)

// String returns the name of a language.
func (l Language) String() string {
	if l == Bpftrace {
		return "bpftrace"
	}
	return "D"
}

// A word is one thing with its names. A name is what to write, as count() or hist(X); its text
// before a bracket is what is looked up. Several names are separated by " | "; the first one is
// shown.
type word struct {
	d, bpftrace      string // "": the language does not have it
	systemtap, other string // names that are only looked up; other is of Solaris, perf and C
}

// words is the table of names of values and functions.
//
// table: never changed
var words = []word{
	{"execname", "comm", "task_execname", "curpsinfo->pr_fname | bpf_get_current_comm"},
	{"pid", "pid", "tgid", "p_pid | bpf_get_current_pid_tgid | getpid"},
	{"tid", "tid", "", "t_tid | curthread->t_tid"},
	{"ppid", "curtask->real_parent->tgid", "", "p_ppid"},
	{"curthread->real_parent->comm", "pcomm", "pexecname", ""},
	{"uid", "uid", "", "bpf_get_current_uid_gid | getuid"},
	{"cpu", "cpu", "", "bpf_get_smp_processor_id | smp_processor_id"},
	{"arg0", "arg0", "", "PT_REGS_PARM1"}, {"arg1", "arg1", "", "PT_REGS_PARM2"},
	{"arg2", "arg2", "", "PT_REGS_PARM3"}, {"arg3", "arg3", "", "PT_REGS_PARM4"},
	{"timestamp", "nsecs", "local_clock_ns | get_cycles",
		"gethrtime | bpf_ktime_get_ns | bpf_ktime_get_boot_ns | ktime_get_ns | ktime_get"},
	{"walltimestamp", "nsecs(tai)", "gettimeofday_ns", ""},
	{"walltimestamp / 1000000000", "nsecs(tai) / 1000000000", "gettimeofday_s", "time"},
	{"walltimestamp / 1000000", "nsecs(tai) / 1000000", "gettimeofday_ms", ""},
	{"walltimestamp / 1000", "nsecs(tai) / 1000", "gettimeofday_us", ""},
	{"timestamp - start, with BEGIN { start = timestamp; }", "elapsed", "", ""},
	{"printf(\"%Y\", walltimestamp)", "strftime(\"%H:%M:%S\", nsecs) | time()", "ctime", ""},
	{"stack()", "kstack", "print_backtrace | backtrace | kernel_stack",
		"callchain | bpf_get_stackid | dump_stack | print_stack | kern_stack | bt"},
	{"ustack()", "ustack", "print_ubacktrace | ubacktrace", "usr_stack | user_stack"},
	{"probefunc", "func", "ppfunc", "symbol | syscall"},
	{"probename", "probe", "pn | pp", ""},
	{"curthread", "curtask", "task_current",
		"bpf_get_current_task | bpf_get_current_task_btf | curproc | current"},
	{"uregs[R_RIP]", "reg(\"ip\")", "u_register | register", ""},
	{"printf(\"%d\", errno)", "strerror(-args.ret)", "", ""},
	{"the option -F", "", "thread_indent | indent", ""},
	{"arg1, or args[1] with its type (arg0 after system calls)", "retval", "returnval | $return",
		"PT_REGS_RC"},
	{"curpsinfo->pr_psargs", "join(args.argv)", "cmdline_str", ""},
	{"uid", "username", "", ""},
	{"errno", "args.ret, which is -errno", "errno_str", ""},
	{"$target", "cpid", "target", ""},
	{"quantize(X)", "hist(X)", "hist_log", "histogram | log2_histogram"},
	{"lquantize(X, FROM, TO, STEP)", "lhist(X, FROM, TO, STEP)", "hist_linear", ""},
	{"llquantize(X, 10, 0, 9, 20)", "hist(X)", "", ""},
	{"avg(X), with count() and sum(X)", "stats(X)", "", ""},
	{"stddev(X)", "stats(X)", "variance", ""},
	{"avg(X)", "avg(X)", "mean", ""},
	{"copyinstr(ADDRESS)", "str(ADDRESS)", "user_string | user_string_n | user_string_quoted",
		"copyinstr | bpf_probe_read_user_str | bpf_probe_read_str"},
	{"stringof(ADDRESS)", "str(ADDRESS)", "kernel_string | kernel_string_n | d_name",
		"bpf_probe_read_kernel_str"},
	{"d_path(&FILE->f_path)", "path(FILE->f_path)", "fullpath_struct_path | fullpath_struct_file",
		""},
	{"tracemem(copyin(ADDRESS, SIZE), 64)", "buf(ADDRESS, SIZE)", "user_buffer_quoted", ""},
	{"copyin(ADDRESS, SIZE)", "uptr(ADDRESS)", "user_long | user_int | user_uint64",
		"uread | bpf_probe_read_user | bpf_probe_read"},
	{"printa(@NAME)", "print(@NAME)", "", ""},
	{"trace(X)", "print(X)", "", ""},
	{"trunc(@NAME)", "clear(@NAME)", "", ""},
	{"clear(@NAME)", "zero(@NAME)", "", ""},
	{"x[KEY] = 0", "delete(@x[KEY])", "", ""},
	{"normalize(@NAME, N)", "print(@NAME, 0, N)", "", ""},
	{"func(ADDRESS)", "ksym(ADDRESS)", "symname | symdata", "sym"},
	{"ufunc(ADDRESS)", "usym(ADDRESS)", "usymname | usymdata", "usym"},
	{"inet_ntoa(ADDRESS)", "ntop(ADDRESS)", "ip_ntop | format_ipaddr", "inet_ntop"},
	{"`NAME", "*kaddr(\"NAME\")", "", ""},
	{"strstr(A, B) != NULL", "strcontains(A, B)", "isinstr", ""},
	{"A == B", "A == B", "", "strcmp | streq"},
	{"A == B, or substr(A, 0, N) == B", "strncmp(A, B, N) == 0", "", "strncmp"},
	{"strlen(A)", "len(A)", "", ""},
	{"strjoin(A, B)", "printf(\"%s%s\", A, B)", "sprintf", "strcat"},
	{"raise(SIGNAL)", "signal(SIGNAL)", "", "bpf_send_signal | kill"},
	{"exit(0)", "exit()", "", ""},
	{"if (...) { ... }, or a predicate /.../", "if (...) { ... }", "next", ""},
	{"printf(\"%s\\n\", A)", "printf(\"%s\\n\", A)", "println | print | log",
		"echo | puts | bpf_trace_printk | bpf_printk | trace_printk | printk"},
	{"self->NAME, a variable of the thread", "@NAME[tid]", "", ""},
}

// members are members of the kernel's structs on Solaris, with those of Linux.
//
// table: never changed
var members = map[string]string{
	"t_did": "pid", "t_tid": "pid", "t_procp": "group_leader", "p_pidp": "thread_pid",
	"p_pid": "tgid", "p_ppid": "real_parent->tgid", "u_comm": "comm", "p_user": "comm",
	"t_cpu": "cpu", "t_pri": "prio", "t_state": "__state", "p_parent": "real_parent",
	"uid": "cred->uid.val", "gid": "cred->gid.val", "euid": "cred->euid.val",
	"ppid":    "real_parent->tgid",
	"td_proc": "group_leader", "td_name": "comm", "td_tid": "pid", "p_comm": "comm",
	"p_pptr": "real_parent", "td_ucred": "cred", "p_ucred": "cred", "p_exitcode": "exit_code",
	"pr_args": "pr_psargs", "cr_uid": "uid.val", "cr_gid": "gid.val", "state": "__state",
	"v_path": "f_path.dentry->d_name.name",
}

// Member returns what a member of a struct is called on Linux; "" if it is not in the table.
func Member(name string) string { return members[name] }

// keyOf returns the part of a name before its brackets.
func keyOf(name string) string {
	key, _, _ := strings.Cut(name, "(")
	return strings.TrimLeft(key, "*")
}

// has reports whether a list of names contains a word.
func has(names, typed string) bool {
	for name := range strings.SplitSeq(names, " | ") {
		if name != "" && keyOf(name) == typed {
			return true
		}
	}
	return false
}

// Hint returns what a word of another tracer is called in a language: "bpftrace's comm is execname
// in D". It returns "" for words that are not in the table or are of the language itself.
func Hint(in Language, typed string) string {
	if typed == "" {
		return ""
	}
	for _, w := range words {
		own, others := w.d, w.bpftrace
		from := Bpftrace
		if in == Bpftrace {
			own, others, from = w.bpftrace, w.d, D
		}
		name, _, _ := strings.Cut(own, " | ")
		if name == "" || has(own, typed) {
			continue
		}
		switch {
		case has(others, typed):
			return from.String() + "'s " + typed + " is " + name + " in " + in.String()
		case has(w.systemtap, typed):
			return "SystemTap's " + typed + " is " + name + " in " + in.String()
		case has(w.other, typed):
			return typed + " is " + name + " in " + in.String()
		}
	}
	return ""
}
