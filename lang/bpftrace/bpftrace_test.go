package bpftrace

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/lang/syntax"
)

// here are options without a kernel.
func here() Options {
	return Options{
		Address: func(name string) (uint64, bool) { return 0xfff0, name == "vfs_read" },
		Cgroup: func(path string) (uint64, error) {
			if path == "/sys/fs/cgroup" {
				return 17, nil
			}
			return 0, errors.New("no such directory")
		},
	}
}

// translated returns the text of D that a program is translated to, in one line per clause.
func translated(t *testing.T, text string, o Options, args ...string) string {
	t.Helper()
	tree, ds := Parse("", text, args)
	if len(ds) > 0 {
		t.Fatalf("%s: %v", text, ds)
	}
	s, ds := Translate(text, tree, o)
	if len(ds) > 0 {
		t.Fatalf("%s: %v", text, ds)
	}
	return strings.Join(strings.Fields(syntax.Print(s.Tree)), " ")
}

func TestProbes(t *testing.T) {
	for _, tt := range []struct{ point, d string }{
		{"BEGIN", "dtrace:::BEGIN"}, {"END", "dtrace:::END"},
		{"interval:s:5", "profile:::tick-5s"}, {"i:ms:20", "profile:::tick-20ms"},
		{"interval:us:30", "profile:::tick-30us"}, {"interval:hz:40", "profile:::tick-40hz"},
		{"interval:1s", "profile:::tick-1s"},
		{"profile:hz:99", "profile:::profile-99hz"}, {"p:ms:7", "profile:::profile-7ms"},
		{"tracepoint:sched:sched_switch", "tracepoint:sched::sched_switch"},
		{"t:syscalls:sys_enter_*", "tracepoint:syscalls::sys_enter_*"},
		{"rawtracepoint:sched_switch", "rawtp:::sched_switch"},
		{"rt:vmlinux:sched_switch", "rawtp:::sched_switch"},
		{"kprobe:vfs_read", "fbt::vfs_read:entry"}, {"k:vfs_*", "fbt::vfs_*:entry"},
		{"kprobe:ext4:ext4_read", "fbt:ext4:ext4_read:entry"},
		{"kretprobe:vfs_read", "fbt::vfs_read:return"}, {"kr:vfs_read", "fbt::vfs_read:return"},
		{"kfunc:vfs_read", "fbt::vfs_read:entry"}, {"fentry:vfs_read", "fbt::vfs_read:entry"},
		{"kretfunc:vfs_read", "fbt::vfs_read:return"}, {"fexit:a:b", "fbt:a:b:return"},
		{"software:page-faults:100", "software:::page-faults-100"},
		{"hardware:cache-misses", "hardware:::cache-misses"},
		{"hardware:cycles:1e6", "hardware:::cycles-1000000"},
		{"profile:hz:1_00", "profile:::profile-100hz"}, {"interval:ms:2e3", "profile:::tick-2000ms"},
		{"uprobe:./a.out:main", "uprobe:./a.out:main:"}, {"u:a/b.so:f", "uprobe:a/b.so:f:"},
		{"ur:../x:f /1/", "uretprobe:../x:f: /1l/"}, {"usdt:./x:p:n", "usdt:./x:p:n"},
		{"interval:s:1/1/", "profile:::tick-1s /1l/"},
	} {
		t.Run(tt.point, func(t *testing.T) {
			got := translated(t, tt.point+" { @ = count(); }", here())
			if want := tt.d + " { @ = count(); }"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

func TestTranslation(t *testing.T) {
	for _, tt := range []struct{ name, text, d string }{
		{"a predicate", "BEGIN /pid == 5/ { exit(); }",
			"dtrace:::BEGIN /(uint64_t)pid == 5l/ { exit(0l); this->$(return)#0 = 3l; }"},
		{"a quotient in a predicate", "BEGIN /tid / 2 == 5/ { $x = 1; }",
			"dtrace:::BEGIN /(uint64_t)tid / 2l == 5l/ { this->$x#0 = 1l; }"},
		{"maps", "BEGIN { @x = 1; @y[pid, comm] = 2; @x += 3; @y[1, comm]++; }",
			"dtrace:::BEGIN { @x[0l] = 1l; @y[(uint64_t)pid, execname] = 2l; @x[0l] += 3l; " +
				"@y[1l, execname]++; }"},
		{"aggregations", "BEGIN { @a = hist(5); @b[1] = lhist(2, 0, 10, 1); @c = stats(3); }",
			"dtrace:::BEGIN { @a = quantize(5l); @b[1l] = lquantize(2l, 0l, 10l, 1l); " +
				"@c = avg(3l); }"},
		{"a tuple", "BEGIN { @t = (1, comm); $t = (2, 3); @u = $t.1; }",
			"dtrace:::BEGIN { @t.0[0l] = 1l; @t.1[0l] = execname; this->$t.0#0 = 2l; " +
				"this->$t.1#0 = 3l; @u[0l] = this->$t.1#0; }"},
		{"delete", "BEGIN { @x[1] = 1; delete(@x[1]); }",
			"dtrace:::BEGIN { @x[1l] = 1l; forget(@x[1l]); }"},
		{"names of numbers", "BEGIN { @x[syscall_name(pid)] = strerror(tid); }",
			"dtrace:::BEGIN { @x[(uint64_t)pid] = (uint64_t)tid; }"},
		{"fields of the task", "BEGIN { @x = curtask.fs.pwd.dentry; }",
			"dtrace:::BEGIN { @x[0l] = curthread.fs.pwd.dentry; }"},
		{"the NUMA node", "BEGIN { @x[numaid] = cpu; }",
			"dtrace:::BEGIN { @x[(uint64_t)lgrp] = (uint64_t)cpu; }"},
		{"a macro", "#define TWO (1 + 1)\nBEGIN { @x = TWO * 3; }",
			"dtrace:::BEGIN { @x[0l] = (1l + 1l) * 3l; }"},
		{"a macro with a value", "macro m($x) { $x + 1 } BEGIN { $a = 1; @x = m($a) * m(5); }",
			"dtrace:::BEGIN { this->$a#0 = 1l; this->$(m 2)x#0 = 5l; " +
				"@x[0l] = (this->$a#0 + 1l) * (this->$(m 2)x#0 + 1l); }"},
		{"a macro with statements",
			"macro add($to, @m, n) { $t = n; $to += $t; @m[$t] = n; } " +
				"BEGIN { $t = 7; add($t, @y, pid); }",
			"dtrace:::BEGIN { this->$t#0 = 7l; this->$(add 1)t#0 = (uint64_t)pid; " +
				"this->$t#0 += this->$(add 1)t#0; @y[this->$(add 1)t#0] = (uint64_t)pid; }"},
		{"a macro without parameters", "macro one() { 1 } BEGIN { @x = one + one(); }",
			"dtrace:::BEGIN { @x[0l] = 1l + 1l; }"},
		{"the branch with BTF",
			"#ifndef BPFTRACE_HAVE_BTF\n#include <linux/x.h>\nnonsense\n#else\n#define A 7\n#endif\n" +
				"BEGIN { @x = A; }", "dtrace:::BEGIN { @x[0l] = 7l; }"},
		{"arguments", "BEGIN { @x = $1; @y = str($2); @n = $#; @z = $9; }",
			`dtrace:::BEGIN { @x[0l] = 12l; @y[0l] = str("word"); @n[0l] = 2l; @z[0l] = 0l; }`},
		{"unroll", "BEGIN { unroll(2) { @x++; } }", "dtrace:::BEGIN { @x[0l]++; @x[0l]++; }"},
		{"a range", "BEGIN { for ($i : 1..3) { @x = $i; } }",
			"dtrace:::BEGIN { this->$i#0 = 1l; @x[0l] = this->$i#0; this->$i#0 = 2l; " +
				"@x[0l] = this->$i#0; }"},
		{"casts", "BEGIN { $t = (struct task_struct *)curtask; @x = (uint8)5; @y = $t->pid; }",
			"dtrace:::BEGIN { this->$t#0 = (struct task_struct *)curthread; " +
				"@x[0l] = (uint8_t)5l; @y[0l] = this->$t#0->pid; }"},
		{"the kernel", `BEGIN { @a = kaddr("vfs_read"); @c = cgroupid("/sys/fs/cgroup"); }`,
			"dtrace:::BEGIN { @a[0l] = 65520ul; @c[0l] = 17ul; }"},
		{"paths", "BEGIN { $t = (struct task_struct *)curtask; @x = path($t->fs->pwd); " +
			"@y = path($t->fs->root, 40); }",
			"dtrace:::BEGIN { this->$t#0 = (struct task_struct *)curthread; " +
				"@x[0l] = d_path(this->$t#0->fs->pwd); " +
				"@y[0l] = substr(d_path(this->$t#0->fs->root), 0l, 40l - 1l); }"},
		{"elapsed", "BEGIN { @x = elapsed; }",
			"dtrace:::BEGIN { (begin) = timestamp; } " +
				"dtrace:::BEGIN { @x[0l] = timestamp - (begin); }"},
		{"what newer versions have",
			"config = { max_strlen = 99 }\nlet @x = hash(5); BEGIN { if has_key(@x, (1, 2)) " +
				"{ $k = (3, 4); @x[$k] = ppid; $d = delete(@x, $k); } }",
			"dtrace:::BEGIN { if (has(@x[1l, 2l])) { this->$k.0#0 = 3l; this->$k.1#0 = 4l; " +
				"@x[this->$k.0#0, this->$k.1#0] = (uint64_t)ppid; " +
				"forget(@x[this->$k.0#0, this->$k.1#0]); this->$d#0 = 1l; } }"},
		{"a fine distribution", "BEGIN { @x = hist(pid, 2); }",
			"dtrace:::BEGIN { this->$(hist)#0 = (int64_t)(uint64_t)pid; " +
				"@x = llquantize(this->$(hist)#0 < 0l ? 0l : this->$(hist)#0 < 4l ? " +
				"-(this->$(hist)#0 + 4l) : this->$(hist)#0, 2l, 2l, 61l, 8l); }"},
		{"a loop over a map",
			"END { $n = 0; for ($kv : @x) { $n += $kv.1; print($kv.0.1); } print($n); } " +
				"kprobe:f { @x[pid, comm] = 1; }",
			"dtrace:::END { $n#0[0l] = 0l; keysof(@x, $(1)kv.0#0, $(1)kv.1#0); valueof(@x, $(1)kv.2#0); " +
				"$(for 1)#0[0l] = 1l; } " +
				"dtrace:::END { $n#0[0l] += $(1)kv.2#0[0l]; output(0l, \".\", $(1)kv.1#0[0l]); } " +
				"dtrace:::END { output(1l, \".\", $n#0[0l]); } " +
				"fbt::f:entry { @x[(uint64_t)pid, execname] = 1l; }"},
		{"a loop over a map in a branch",
			"BEGIN { @c[1] = count(); if (pid) { for ($kv : @c) { @y++; } } @z = 1; }",
			"dtrace:::BEGIN { @c[1l] = count(); $(if 1)#0[0l] = (uint64_t)pid ? 1l : 0l; " +
				"if ($(if 1)#0[0l]) { keysof(@c, $(1)kv.0#0); valueof(@c, $(1)kv.1#0); " +
				"$(for 1)#0[0l] = 1l; } } dtrace:::BEGIN { @y[0l]++; } " +
				"dtrace:::BEGIN { @z[0l] = 1l; }"},
		{"a return from a loop over a map",
			"END { @x[1] = 1; for ($kv : @x) { return; } @y = 1; }",
			"dtrace:::END { $(return)#0[0l] = 0l; @x[1l] = 1l; keysof(@x, $(1)kv.0#0); " +
				"valueof(@x, $(1)kv.1#0); $(for 1)#0[0l] = 1l; } " +
				"dtrace:::END { $(return 1)#0[0l] = 0l; $(return 1)#0[0l] = 3l; " +
				"$(return)#0[0l] = 3l; $(for 1)#0[0l] = 0l; } " +
				"dtrace:::END { if (!$(return)#0[0l]) { @y[0l] = 1l; } }"},
		{"the length of a map", "END { @x[1] = 1; print(len(@x)); }",
			"dtrace:::END { @x[1l] = 1l; $(answer 1)#0[0l] = 0l; } dtrace:::END { } " +
				"dtrace:::END { output(0l, \".\", $(answer 1)#0[0l]); }"},
		{"the value of a count", "END { if (@x[1, comm] > 5) { @y = 2; } @x[1, comm] = count(); }",
			"dtrace:::END { $(key 1.0)#0[0l] = 1l; $(key 1.1)#0[0l] = execname; " +
				"$(answer 1)#0[0l] = 0l; } dtrace:::END { } " +
				"dtrace:::END { if ($(answer 1)#0[0l] > 5l) { @y[0l] = 2l; } " +
				"@x[1l, execname] = count(); }"},
		{"a return with an else", "BEGIN { if (pid) { return; } @x = 1; }",
			"dtrace:::BEGIN { if ((uint64_t)pid) { this->$(return)#0 = 3l; } else { @x[0l] = 1l; } }"},
		{"options", `BEGIN { @a = getopt("depth", 35, "levels"); @b = getopt("all", false);
			@c = getopt("all"); @d = getopt("name", "x"); @e = getopt("other", true); }`,
			`dtrace:::BEGIN { @a[0l] = 7l; @b[0l] = 1l; @c[0l] = 1l; @d[0l] = "why"; @e[0l] = 1l; }`},
		{"durations", "BEGIN { @a = 5ms; @b = 2us; @c = 1_000ns; @d = 3s; @e = 1m; @f = 2h; @g = 1d; }",
			"dtrace:::BEGIN { @a[0l] = 5000000l; @b[0l] = 2000l; @c[0l] = 1000l; " +
				"@d[0l] = 3000000000l; @e[0l] = 60000000000l; @f[0l] = 7200000000000l; " +
				"@g[0l] = 86400000000000l; }"},
		{"a probe with a name", "mine=kprobe:f { @x = 1; }", "fbt::f:entry { @x[0l] = 1l; }"},
		{"a value that is not used", "kprobe:f { @x[1] = 1; _ = has_key(@x, 1); }",
			"fbt::f:entry { @x[1l] = 1l; has(@x[1l]); }"},
		{"probes of two kinds", "kprobe:f, kretprobe:f { @x = 1; }",
			"fbt::f:entry { @x[0l] = 1l; } fbt::f:return { @x[0l] = 1l; }"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"12", "word"}
			if strings.Contains(tt.text, "getopt") {
				args = []string{"12", "--depth=7", "--all", "word", "--name=why"}
			}
			if got := translated(t, tt.text, here(), args...); got != tt.d {
				t.Errorf("\n%s, want\n%s", got, tt.d)
			}
		})
	}
}

// Each mistake is reported at its place with what to write instead.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct {
		name, text, at, says string
		code                 syntax.Code
	}{
		{"no probe", "", "", "no probes", BadSyntax},
		{"statements alone", `printf("x");`, `printf(`, "unknown kind of probe", BadProbe},
		{"an unknown probe", "kprob:f { }", "kprob", "unknown kind of probe", BadProbe},
		{"an incomplete probe", "tracepoint:sched { }", "tracepoint", "not complete", BadProbe},
		{"a watchpoint", "watchpoint:0x1:8:w { }", "watchpoint", "not supported", Unsupported},
		{"an unknown setting", "config = { max_strlen = 9; max_len = 5 } BEGIN { }", "max_len",
			"unknown setting", BadSyntax},
		{"a buffer of unknown size in a map", "BEGIN { @x = buf(curtask, pid); }", "buf", "constant",
			Unsupported},
		{"no brace", "BEGIN exit();", "exit", "expected {", BadSyntax},
		{"an open block", "BEGIN { @ = 1;", "{ @", "missing }", BadSyntax},
		{"an open string", "BEGIN { printf(\"x); }", `"x`, "unclosed string", BadSyntax},
		{"no semicolon", "BEGIN { @x = 1 @y = 2; }", "@y", "expected ;", BadSyntax},
		{"a number with letters", "BEGIN { @x = 5mw; }", "5mw", "not a number", BadSyntax},
		{"an unknown function", "BEGIN { @x = strlen(comm); }", "strlen", "unknown function",
			BadCall},
		{"a function of another kind", "BEGIN { print(count()); }", "count", "only for assignments",
			BadCall},
		{"too few arguments", "BEGIN { @x = lhist(1); }", "lhist", "takes 4 arguments", BadCall},
		{"an unknown variable", "BEGIN { @x = $y; }", "$y", "not assigned", BadMap},
		{"an unknown map", "BEGIN { print(@y); }", "@y", "never assigned", BadMap},
		{"a map of two functions", "BEGIN { @x = count(); @x = sum(1); }", "@x = sum",
			"assigned count() before", BadMap},
		{"keys and no keys", "BEGIN { @x = 1; @x[1] = 2; }", "@x[1]", "no keys elsewhere", BadMap},
		{"the value of a count", "kprobe:f { @x = count(); if (@x > 1) { } }", "@x >",
			"not known in the kernel", Unsupported},
		{"the value of a distribution", "BEGIN { @x = hist(1); if (@x > 1) { } }", "@x >",
			"not known in the kernel", Unsupported},
		{"a jump without a loop", "BEGIN { break; }", "break", "not in a loop", BadCall},
		{"a loop of too many statements",
			"BEGIN { while (1) { while (1) { while (1) { unroll (9) { @x++; } } } } }",
			"@x", "too many statements", TooLarge},
		{"a loop over a map in a probe of the kernel", "kprobe:f { @x[1] = 1; for ($k : @x) { } }",
			"for", "only in BEGIN, END and interval", Unsupported},
		{"a loop over a map in another loop",
			"BEGIN { @x[1] = 1; while (1) { for ($k : @x) { } } }", "while", "can't be in while,",
			Unsupported},
		{"a loop over a map without keys", "BEGIN { @x = 1; for ($k : @x) { } }", "@x)",
			"has no keys", BadMap},
		{"a loop over distributions", "BEGIN { @x[1] = hist(1); for ($k : @x) { } }", "@x)",
			"can't read the values of hist()", Unsupported},
		{"a loop over an unknown map", "BEGIN { for ($k : @x) { } }", "@x)", "never assigned",
			BadMap},
		{"a variable of two loops",
			"END { @x[1] = 1; for ($k : @x) { for ($k : @x) { } } }", "for ($k : @x) { } }",
			"a loop around", BadMap},
		{"a length in a probe of the kernel", "kprobe:f { @x[1] = len(@x); }", "len",
			"only in BEGIN, END and interval", Unsupported},
		{"too fine a distribution", "BEGIN { @x = hist(1, 6); }", "6)", "from 0 to 5", BadCall},
		{"two distributions of one map", "BEGIN { @x = hist(1); @x = hist(1, 2); }", "hist(1, 2)",
			"hist(VALUE, 0) elsewhere", BadMap},
		{"too many turns", "BEGIN { unroll (1000) { } }", "1000", "from 1 to 100", BadCall},
		{"system", `BEGIN { system("ls"); }`, "system", "runs commands", Unsafe},
		{"signal", `kprobe:f { signal("KILL"); }`, "signal", "sends signals", Unsafe},
		{"override", "kprobe:f { override(1); }", "override", "not supported", Unsupported},
		{"too few values", `BEGIN { printf("%d %d", 1); }`, "printf", "2 conversions", BadFormat},
		{"an unknown conversion", `BEGIN { printf("%y", 1); }`, `"%y"`, "no conversion", BadFormat},
		{"a stack as a number", `BEGIN { printf("%d", kstack); }`, "kstack", "%d does not print",
			BadFormat},
		{"an argument of nothing", "BEGIN { @x = arg0; }", "arg0", "no arg0", Unsupported},
		{"an argument at a return", "kretfunc:f { @x = args.n; }", "args.n", "where a function returns",
			Unsupported},
		{"the result of an entry", "kprobe:f { @x = retval; }", "retval", "no retval", Unsupported},
		{"an assignment to a builtin", "BEGIN { pid = 1; }", "=", "can be assigned", BadSyntax},
		{"a macro that is no expression", "#define A +\nBEGIN { @x = A; }", "A;", "not an expression",
			BadSyntax},
		{"a macro of itself", "#define A A\nBEGIN { @x = A; }", "A;", "", BadSyntax},
		{"a long duration", "BEGIN { @x = 300000d; }", "300000d", "not a number of 64 bits",
			BadSyntax},
		{"a type of a variable", "BEGIN { let $x : uint8 = 3; }", "$x", "with a type is not supported",
			BadSyntax},
		{"a series", "BEGIN { @x = tseries(1, 1s, 10); }", "tseries(1, 1s, 10)", "not supported",
			Unsupported},
		{"a function", "fn x() { 1 } BEGIN { }", "fn", "not supported", Unsupported},
		{"a map that is no parameter", "macro m() { @x = 1; } BEGIN { m(); }", "@x = 1",
			"not a parameter", BadMap},
		{"a macro without a value", "macro m() { $x = 1; } BEGIN { $y = m(); }", "m();",
			"has no value", BadCall},
		{"a macro with statements in a condition",
			"macro m() { $x = 1; $x } BEGIN { $y = pid && m(); }", "$x = 1",
			"can't be in && and ||", Unsupported},
		{"too few arguments of a macro", "macro m($x) { $x } BEGIN { $y = m(); }", "m();",
			"takes 1 arguments, not 0", BadCall},
		{"a macro that calls itself", "macro m() { m() } BEGIN { m(); }", "m()", "too much text",
			TooLarge},
		{"a macro defined twice", "macro m() { 1 } macro m() { 2 } BEGIN { }", "macro m() { 2",
			"defined twice", BadSyntax},
		{"has_key of a count", "BEGIN { @x[1] = count(); if has_key(@x, 1) { } }", "@x, 1",
			"not known in the kernel", Unsupported},
		{"an option without a name", "BEGIN { @x = getopt(5); }", "getopt", "must be a string",
			BadCall},
		{"an option of no constant", `BEGIN { @x = getopt("a", pid); }`, "getopt",
			"must be a constant", BadCall},
		{"a strange character", "BEGIN { @x = 1 § 2; }", "§", "unknown character", BadSyntax},
		{"a cgroup", `BEGIN { @x = cgroupid("/x"); }`, `"/x"`, "no cgroup /x", BadCall},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, ds := Parse("", tt.text, nil)
			if len(ds) == 0 {
				_, ds = Translate(tt.text, tree, here())
			}
			if len(ds) == 0 {
				t.Fatal("no diagnostic")
			}
			d := ds[0]
			if d.Code != tt.code || !strings.HasPrefix(tt.text[d.Pos:], tt.at) ||
				!strings.Contains(d.Message, tt.says) {
				t.Errorf("%s at %q: %s", d.Code, tt.text[d.Pos:], d.Error())
			}
		})
	}
}

// What users of D, C, SystemTap and shells write is answered with what to write instead.
func TestHintsOfMistakes(t *testing.T) {
	for _, tt := range []struct{ name, text, hint string }{
		{"a variable of the thread", "BEGIN { self->t = 1; }", "@t[tid]"},
		{"a variable of the clause", "BEGIN { this->t = 1; }", "is $t"},
		{"a variable without a sigil", "BEGIN { t = 1; }", "write $t = ..., or @t"},
		{"a builtin", "BEGIN { if (pid = 1) { } }", "== compares"},
		{"a function without brackets", "BEGIN { @x = count; }", "write @ = count()"},
		{"quotes of a shell", "BEGIN { printf('%d', 1); }", `double quotes: "%d"`},
		{"another sign to assign", "BEGIN { $x := 1; }", "= assigns"},
		{"the loop of C", "BEGIN { for ($i = 0; $i < 3; $i++) { } }", "for ($i : 0..10)"},
		{"the loop of SystemTap", "BEGIN { for (i in x) { } }", "for ($kv : @map)"},
		{"and", "BEGIN { if (pid == 1 and tid == 2) { } }", "write && for and"},
		{"count() that is added", "BEGIN { @x += count(); }", "write @ = count()"},
		{"a probe of gdb", "break main { }", "uprobe:FILE:main"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, ds := Parse("", tt.text, nil)
			if len(ds) == 0 {
				_, ds = Translate(tt.text, tree, here())
			}
			if len(ds) != 1 || !strings.Contains(ds[0].Hint, tt.hint) {
				t.Errorf("%v, want one with %q", ds, tt.hint)
			}
		})
	}
}

// All mistakes of a program are reported at once, in the order of the text.
func TestAllMistakesAtOnce(t *testing.T) {
	text := "BEGIN { @x = ; @y = 1 }\nEND { printf(; @z = 2; if (1 { } }\nkprobe { } BEGIN { 5 5; }"
	_, ds := Parse("f.bt", text, nil)
	var lines []int
	for _, d := range ds {
		lines = append(lines, d.Line)
	}
	if !slices.Equal(lines, []int{1, 2, 2, 3}) {
		t.Errorf("%v", ds)
	}
}

func TestFormat(t *testing.T) {
	number := func(n int64) Value { return Value{Number: n} }
	for _, tt := range []struct {
		format string
		value  Value
		want   string
	}{
		{"%d", number(-5), "-5"}, {"%u", number(-5), "4294967291"},
		{"%lu", number(-5), "18446744073709551611"}, {"%x", number(-1), "ffffffff"},
		{"%lx", number(255), "ff"}, {"%X", number(171), "AB"}, {"%#x", number(18), "0x12"},
		{"%o", number(8), "10"}, {"%#o", number(8), "010"}, {"%5d|", number(42), "   42|"},
		{"%-5d|", number(42), "42   |"}, {"%05d", number(-42), "-0042"}, {"%+d", number(4), "+4"},
		{"% d", number(4), " 4"}, {"%.3d", number(4), "004"}, {"%c", number(65), "A"},
		{"%p", number(0x1000), "0x1000"}, {"%p", number(0), "(nil)"},
		{"%hd", number(70000), "4464"}, {"%hhd", number(300), "44"},
		{"%d", number(5_000_000_000), "5000000000"}, {"%d", number(3_000_000_000), "3000000000"},
		{"%d", number(-2_147_483_649), "-2147483649"}, {"%u", number(4_294_967_295), "4294967295"},
		{"%u", number(4_294_967_296), "4294967296"},
		{"%d", Value{Number: -1, Unsigned: true}, "-1"},
		{"%s", TextOf("ab"), "ab"}, {"%5s|", TextOf("ab"), "   ab|"},
		{"%-5s|", TextOf("ab"), "ab   |"}, {"%.1s", TextOf("ab"), "a"}, {"100%%%s", TextOf(""), "100%"},
	} {
		t.Run(tt.format+" of "+tt.value.String(), func(t *testing.T) {
			f, err := ParseFormat(tt.format)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(f.Append(nil, []Value{tt.value})); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	for _, bad := range []string{"%", "%5", "%y", "%9999d", "%.2000s", "%lls%"} {
		if _, err := ParseFormat(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// Rows are sorted by value, then by key; keys and limits of buckets are those of bpftrace.
func TestTable(t *testing.T) {
	key := func(words ...string) (out []Value) {
		for _, w := range words {
			out = append(out, TextOf(w))
		}
		return out
	}
	number := func(n int64) Value { return Value{Number: n} }
	for _, tt := range []struct {
		name       string
		table      Table
		text, json string
	}{
		{"numbers by value", Table{Name: "x", Rows: []Row{
			{Key: key("b", "c"), Value: number(9)}, {Key: key("z", "d"), Value: number(-3)},
			{Key: key("a", "e"), Value: number(9)},
		}}, "@x[z, d]: -3\n@x[a, e]: 9\n@x[b, c]: 9\n",
			`{"type": "map", "data": {"@x": {"z,d": -3, "a,e": 9, "b,c": 9}}}`},
		{"texts by key", Table{Rows: []Row{
			{Key: key("b"), Value: TextOf("1")}, {Key: key("a"), Value: TextOf("<2>")},
		}}, "@[a]: <2>\n@[b]: 1\n", `{"type": "map", "data": {"@": {"a": "<2>", "b": "1"}}}`},
		{"large numbers", Table{Name: "u", Rows: []Row{
			{Key: key("a"), Value: Value{Number: -1, Unsigned: true}},
			{Key: key("b"), Value: Value{Number: 5, Unsigned: true}},
		}}, "@u[b]: 5\n@u[a]: 18446744073709551615\n",
			`{"type": "map", "data": {"@u": {"b": 5, "a": 18446744073709551615}}}`},
		{"divided", Table{Name: "d", Div: 1000, Rows: []Row{{Value: number(7999)}}}, "@d: 7\n",
			`{"type": "map", "data": {"@d": 7}}`},
		{"stats", Table{Name: "s", Func: "stats", Rows: []Row{
			{Key: key("a"), Count: 2, Total: 11}, {Key: key("b"), Count: 4, Total: 8},
		}}, "@s[b]: count 4, average 2, total 8\n@s[a]: count 2, average 5, total 11\n\n",
			`{"type": "stats", "data": {"@s": {"b": {"count": 4, "average": 2, "total": 8}, ` +
				`"a": {"count": 2, "average": 5, "total": 11}}}}`},
		{"avg", Table{Name: "a", Func: "avg", Rows: []Row{{Count: 3, Total: -10}}}, "@a: -3\n\n",
			`{"type": "stats", "data": {"@a": -3}}`},
		{"lhist", Table{Name: "l", Func: "lhist", Least: 1024, Step: 512, Rows: []Row{
			{Buckets: []uint64{1, 0, 4, 2}},
		}}, "@l: \n" +
			"(..., 1K)              1 |@@@@@@@@@@@@@                                       |\n" +
			"[1K, 1536)             0 |                                                    |\n" +
			"[1536, 2K)             4 |" + strings.Repeat("@", 52) + "|\n" +
			"[2K, ...)              2 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |\n\n",
			`{"type": "hist", "data": {"@l": [{"max": 1023, "count": 1}, ` +
				`{"min": 1024, "max": 1535, "count": 0}, {"min": 1536, "max": 2047, "count": 4}, ` +
				`{"min": 2048, "count": 2}]}}`},
		{"a fine distribution", Table{Name: "f", Func: "hist", Bits: 1, Rows: []Row{
			{Buckets: []uint64{1, 0, 0, 0, 2, 4}},
		}}, "@f: \n" +
			"(..., 0)               1 |@@@@@@@@@@@@@                                       |\n" +
			"[0]                    0 |                                                    |\n" +
			"[1]                    0 |                                                    |\n" +
			"[2]                    0 |                                                    |\n" +
			"[3]                    2 |@@@@@@@@@@@@@@@@@@@@@@@@@@                          |\n" +
			"[4, 6)                 4 |" + strings.Repeat("@", 52) + "|\n\n",
			`{"type": "hist", "data": {"@f": [{"max": -1, "count": 1}, ` +
				`{"min": 0, "max": 0, "count": 0}, {"min": 1, "max": 1, "count": 0}, ` +
				`{"min": 2, "max": 2, "count": 0}, {"min": 3, "max": 3, "count": 2}, ` +
				`{"min": 4, "max": 5, "count": 4}]}}`},
		{"nothing", Table{Name: "n"}, "\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.table.Sort()
			if got := string(tt.table.AppendText(nil)); got != tt.text {
				t.Errorf("\n%s, want\n%s", got, tt.text)
			}
			got := strings.TrimSuffix(string(tt.table.AppendJSON(nil)), "\n")
			if got != tt.json {
				t.Errorf("\n%s, want\n%s", got, tt.json)
			}
		})
	}
}

// No text makes the parser panic or take much memory.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"BEGIN { @x[1, comm] = hist(5); printf(\"%d\\n\", (1, 2).0); exit(); }",
		"#define A (B + B)\n#define B 1\nBEGIN /pid / 2/ { unroll (5) { $x = A ? 1 : 2; } }",
		"uprobe:/bin/bash:\"a::b\", usdt:/x:y:z { if (1) { return; } else { for ($i : 1..5) { } } }",
		"BEGIN { @x[1] = 1; if (len(@x)) { for ($k : @x) { for ($l : @x) { break; } } } }",
		"macro m($x, @y, z) { $x += z; @y[$x] = z; $x } BEGIN { print(m(1, @a, pid)); }",
		"struct s { int x; }; kprobe:f { $a = (struct s *)arg0; @ = $a->x; delete(@[1]); }",
	} {
		f.Add(text)
	}
	// A text of some bytes may ask for mostStatements unrolled statements.
	limit := heapbound.Limit{Base: 64 << 20, PerByte: 4 << 10}
	heapbound.FuzzWithin(f, limit, func(t *testing.T, text string) {
		tree, ds := Parse("", text, []string{"1", "x"})
		if (tree == nil) == (len(ds) == 0) {
			t.Fatal("neither a tree nor diagnostics")
		}
		if tree != nil {
			o := here()
			o.Unsafe = true
			if s, ds := Translate(text, tree, o); (s == nil) == (len(ds) == 0) {
				t.Fatal("neither a script nor diagnostics")
			}
		}
	})
}

// Options are checked against what the program asks for.
func TestOptionMistakes(t *testing.T) {
	for _, tt := range []struct{ text, arg, says string }{
		{`BEGIN { @x = getopt("depth", 5); }`, "--dept=6", "no option --dept"},
		{`BEGIN { @x = getopt("depth", 5); }`, "--depth=six", "must be a number"},
		{`BEGIN { @x = getopt("all"); }`, "--all=maybe", "must be true or false"},
	} {
		t.Run(tt.arg, func(t *testing.T) {
			_, ds := Parse("", tt.text, []string{tt.arg})
			if len(ds) != 1 || !strings.Contains(ds[0].Message, tt.says) {
				t.Errorf("%v", ds)
			}
		})
	}
}
