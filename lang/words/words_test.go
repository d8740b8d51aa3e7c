package words

import (
	"strings"
	"testing"
)

func TestHint(t *testing.T) {
	for _, c := range []struct {
		in          Language
		typed, want string
	}{
		{D, "comm", "bpftrace's comm is execname in D"},
		{D, "nsecs", "bpftrace's nsecs is timestamp in D"},
		{D, "kstack", "bpftrace's kstack is stack() in D"},
		{D, "hist", "bpftrace's hist is quantize(X) in D"},
		{D, "str", "bpftrace's str is copyinstr(ADDRESS) in D"},
		{D, "kaddr", "bpftrace's kaddr is `NAME in D"},
		{D, "gettimeofday_ns", "SystemTap's gettimeofday_ns is walltimestamp in D"},
		{D, "stats", "bpftrace's stats is avg(X), with count() and sum(X) in D"},
		{D, "variance", "SystemTap's variance is stddev(X) in D"},
		{Bpftrace, "stddev", "D's stddev is stats(X) in bpftrace"},
		{D, "strcmp", "strcmp is A == B in D"},
		{D, "path", "bpftrace's path is d_path(&FILE->f_path) in D"},
		{D, "histogram", "histogram is quantize(X) in D"},
		{D, "bpf_ktime_get_ns", "bpf_ktime_get_ns is timestamp in D"},
		{D, "PT_REGS_PARM2", "PT_REGS_PARM2 is arg1 in D"},
		{D, "syscall", "syscall is probefunc in D"},
		{Bpftrace, "bpf_get_current_comm", "bpf_get_current_comm is comm in bpftrace"},
		{Bpftrace, "trace", "D's trace is print(X) in bpftrace"},
		{D, "execname", ""},
		{D, "quantize", ""},
		{D, "nothing", ""},
		{D, "", ""},
		{Bpftrace, "execname", "D's execname is comm in bpftrace"},
		{Bpftrace, "timestamp", "D's timestamp is nsecs in bpftrace"},
		{Bpftrace, "quantize", "D's quantize is hist(X) in bpftrace"},
		{Bpftrace, "copyinstr", "D's copyinstr is str(ADDRESS) in bpftrace"},
		{Bpftrace, "d_path", "D's d_path is path(FILE->f_path) in bpftrace"},
		{Bpftrace, "comm", ""},
		{Bpftrace, "ubacktrace", "SystemTap's ubacktrace is ustack in bpftrace"},
	} {
		t.Run(c.in.String()+" "+c.typed, func(t *testing.T) {
			if got := Hint(c.in, c.typed); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestProbes(t *testing.T) {
	for d, bpftrace := range map[string]string{
		"fbt::vfs_read:entry": "kprobe:vfs_read", "fbt::vfs_read:return": "kretprobe:vfs_read",
		"tracepoint:sched::sched_switch": "tracepoint:sched:sched_switch",
		"syscall::openat:entry":          "tracepoint:syscalls:sys_enter_openat",
		"syscall::openat:return":         "tracepoint:syscalls:sys_exit_openat",
		"profile-99":                     "profile:hz:99", "profile-10ms": "profile:ms:10",
		"tick-1s": "interval:s:1", "uprobe:/bin/bash:readline:": "uprobe:/bin/bash:readline",
		"usdt:libc:*:setjmp": "usdt:libc:setjmp", "rawtp:::sched_switch": "rawtracepoint:sched_switch",
		"software:::page-faults-100": "software:page-faults:100",
	} {
		t.Run(bpftrace, func(t *testing.T) {
			if got := ProbeInD(bpftrace); got != d {
				t.Errorf("in D %q, want %q", got, d)
			}
		})
	}
	for d, bpftrace := range map[string]string{
		"fbt::vfs_read:entry": "kprobe:vfs_read", "fbt:ext4:f:return": "kretprobe:f",
		"syscall:::entry": "tracepoint:raw_syscalls:sys_enter", "syscall::read:return": "tracepoint:syscalls:sys_exit_read",
		"tick-1sec": "interval:s:1", "profile-97": "profile:hz:97", "io:::start": "tracepoint:block:block_rq_issue",
		"sdt:net::netif_rx": "tracepoint:net:netif_rx", "pid$target:libc:f:entry": "uprobe:libc:f",
		"sched:sched_switch": "tracepoint:sched:sched_switch", "dtrace:::BEGIN": "BEGIN", "kprobe": "", "a:b:c": "",
	} {
		t.Run(d, func(t *testing.T) {
			if got := ProbeInBpftrace(d); got != bpftrace {
				t.Errorf("in bpftrace %q, want %q", got, bpftrace)
			}
		})
	}
	for text, want := range map[string]string{
		"syscalls:sys_enter_read": "syscall::read:entry", "syscalls:sys_exit_read": "syscall::read:return",
		"syscalls:other": "",
	} {
		if got := ProbeInD(text); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"io:::start", "BEGIN", "syscall::read:entry", "fbt::f:entry", "", ":", "::", "a:b:c"} {
		if got := ProbeInD(text); got != "" {
			t.Errorf("%s is %q", text, got)
		}
	}
}

// Probes of SystemTap and of perf probe are found with and without the quotes that a shell takes,
// and before more text.
func TestForeignProbes(t *testing.T) {
	for _, c := range []struct{ text, d, bpftrace string }{
		{`kernel.function("vfs_read")`, "fbt::vfs_read:entry", "kprobe:vfs_read"},
		{`kernel.function("vfs_*@fs/read_write.c").return`, "fbt::vfs_*:return", "kretprobe:vfs_*"},
		{`kernel.function("do_exit").call`, "fbt::do_exit:entry", "kprobe:do_exit"},
		{`module("ext4").function("ext4_sync_file")`, "fbt:ext4:ext4_sync_file:entry",
			"kprobe:ext4:ext4_sync_file"},
		{`process("/usr/bin/ruby").function("rb_gc").return`, "uretprobe:/usr/bin/ruby:rb_gc:",
			"uretprobe:/usr/bin/ruby:rb_gc"},
		{`process("/usr/lib/libc.so.6").mark("setjmp")`, "usdt:/usr/lib/libc.so.6:*:setjmp",
			"usdt:/usr/lib/libc.so.6:setjmp"},
		{`syscall.openat`, "syscall::openat:entry", "tracepoint:syscalls:sys_enter_openat"},
		{`nd_syscall.read.return`, "syscall::read:return", "tracepoint:syscalls:sys_exit_read"},
		{`kernel.trace("sched:sched_switch")`, "tracepoint:sched::sched_switch",
			"tracepoint:sched:sched_switch"},
		{`kernel.trace("kmem_alloc")`, "tracepoint:::kmem_alloc", "tracepoint:*:kmem_alloc"},
		{`timer.s(5)`, "tick-5s", "interval:s:5"},
		{`timer.profile`, "profile-99", "profile:hz:99"},
		{`ioblock.request`, "io:::start", "tracepoint:block:block_rq_issue"},
		{`process.begin`, "proc:::exec-success", "tracepoint:sched:sched_process_exec"},
		{`p:mine do_sys_open`, "fbt::do_sys_open:entry", "kprobe:do_sys_open"},
		{`r:grp/mine vfs_read ret=$retval`, "fbt::vfs_read:return", "kretprobe:vfs_read"},
	} {
		for _, text := range []string{c.text, "probe " + c.text + " { exit() }",
			"probe  " + strings.ReplaceAll(c.text, `"`, "") + " {", c.text + "\n{"} {
			for in, want := range []string{c.d, c.bpftrace} {
				f, ok := ForeignProbe(Language(in), text)
				if !ok || f.Own != want || !strings.HasPrefix(text, f.Text) {
					t.Errorf("%s: %+v, want %s", text, f, want)
				}
			}
		}
	}
	for _, text := range []string{"", "BEGIN", "begin { }", "syscall::read:entry", "profile-99",
		"probe", "kernel", "p", "io:::start /x/ { }", "self->x = 1"} {
		if f, ok := ForeignProbe(D, text); ok {
			t.Errorf("%s is %+v", text, f)
		}
	}
	if f, _ := ForeignProbe(D, "probe begin { }"); f.Own != "BEGIN" {
		t.Errorf("%+v", f)
	}
	for text, want := range map[string]string{"cpc:::cpu_clk-all-10000": "hardware:::cycles-10000",
		"cpc:::PAPI_tot_ins-user-5000": "hardware:::instructions-5000", "cpc:::other-all-1": ""} {
		if got := ProbeInD(text); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

// Each row has names that are found, and no name is in two rows of one language with two meanings
// where both would be shown.
func TestTable(t *testing.T) {
	for _, w := range words {
		for _, names := range []string{w.bpftrace, w.systemtap, w.other} {
			for name := range strings.SplitSeq(names, " | ") {
				if key := keyOf(name); key != "" && strings.ContainsAny(key, " ") {
					continue // an expression
				} else if key != "" && !has(w.d, key) && Hint(D, key) == "" {
					t.Errorf("%s is not found", name)
				}
			}
		}
	}
}

// Names of Solaris and FreeBSD have one line each, and none is a word of Linux's own table.
func TestSolaris(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range [][]way{variables, constants, translated} {
		for _, w := range table {
			for name := range strings.SplitSeq(w.names, " | ") {
				if seen[name] {
					t.Errorf("%s is in two rows", name)
				}
				seen[name] = true
			}
			if w.hint == "" || strings.HasSuffix(w.hint, ".") {
				t.Errorf("%s: the hint %q is a phrase without a full stop", w.names, w.hint)
			}
		}
	}
	for name, want := range map[string]string{
		Variable("utsname"):  "init_uts_ns",
		Constant("SOBJ_CV"):  "stack() at sched:::off-cpu",
		Translated("t_lwp"):  "uregs[]",
		Translated("td_tid"): "pr_lwpid",
	} {
		if !strings.Contains(name, want) {
			t.Errorf("%q does not contain %q", name, want)
		}
	}
	if Variable("nosuch")+Constant("nosuch")+Translated("nosuch") != "" {
		t.Error("an unknown name has a hint")
	}
}

// Probes of BCC's tools, ftrace and gdb, and events of perf.
func TestProbesOfOtherTools(t *testing.T) {
	for _, tt := range []struct{ typed, d string }{
		{"r:vfs_read", "fbt::vfs_read:return"}, {"p:vfs_read", "fbt::vfs_read:entry"},
		{"r::vfs_read", "fbt::vfs_read:return"}, {"p::vfs_read", "fbt::vfs_read:entry"},
		{"c:malloc", "uprobe:libc:malloc:"}, {"r:c:malloc", "uretprobe:libc:malloc:"},
		{"p:ssl:SSL_read", "uprobe:ssl:SSL_read:"}, {"p:hz:99", "profile-99"},
		{"cycles:u", "hardware:::cpu-cycles-1000000"}, {"page-faults", "software:::page-faults-1"},
		{"timer:s:1", "tick-1s"}, {"profile:::99hz", "profile-99hz"},
		{"profile:::profile-99", ""}, {"p:99", ""},
		{"break main", "pid$target:a.out:main:entry, with -p or -c"},
	} {
		t.Run(tt.typed, func(t *testing.T) {
			if got := ProbeInD(tt.typed); got != tt.d {
				t.Errorf("%q, want %q", got, tt.d)
			}
		})
	}
	for _, tt := range []struct{ typed, bpftrace string }{
		{"cycles", "hardware:cpu-cycles:1000000"}, {"page-faults", "software:page-faults:1"},
		{"pid$target::malloc:entry", "uprobe:FILE:malloc"},
	} {
		t.Run(tt.typed+" in bpftrace", func(t *testing.T) {
			if got := ProbeInBpftrace(tt.typed); got != tt.bpftrace {
				t.Errorf("%q, want %q", got, tt.bpftrace)
			}
		})
	}
}
