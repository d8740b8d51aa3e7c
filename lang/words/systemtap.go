package words

import (
	"regexp"
	"strings"
)

// A Foreign is a probe as SystemTap, perf or gdb has it, at the begin of a clause.
type Foreign struct {
	Text string // as it was written
	Tool string // SystemTap, perf, gdb
	Own  string // the probe of the language
}

// foreign are the forms of probes of SystemTap and of perf probe, with those of D and bpftrace. A
// quote may be missing: shells take them.
//
// table: never changed
var foreign = []struct {
	tool, form  string
	d, bpftrace string
}{
	{"SystemTap", `kernel\.function\("?([\w*?]+)(?:@[^")]*)?"?\)\.return\b`, "fbt::$1:return",
		"kretprobe:$1"},
	{"SystemTap", `kernel\.function\("?([\w*?]+)(?:@[^")]*)?"?\)(?:\.\w+)?`, "fbt::$1:entry",
		"kprobe:$1"},
	{"SystemTap", `module\("?(\w+)"?\)\.function\("?([\w*?]+)(?:@[^")]*)?"?\)\.return\b`,
		"fbt:$1:$2:return", "kretprobe:$1:$2"},
	{"SystemTap", `module\("?(\w+)"?\)\.function\("?([\w*?]+)(?:@[^")]*)?"?\)(?:\.\w+)?`,
		"fbt:$1:$2:entry", "kprobe:$1:$2"},
	{"SystemTap", `process\("?([^")]+)"?\)\.function\("?([\w*?:]+)(?:@[^")]*)?"?\)\.return\b`,
		"uretprobe:$1:$2:", "uretprobe:$1:$2"},
	{"SystemTap", `process\("?([^")]+)"?\)\.function\("?([\w*?:]+)(?:@[^")]*)?"?\)(?:\.\w+)?`,
		"uprobe:$1:$2:", "uprobe:$1:$2"},
	{"SystemTap", `process\("?([^")]+)"?\)\.(?:provider\("?\w+"?\)\.)?mark\("?(\w+)"?\)`,
		"usdt:$1:*:$2", "usdt:$1:$2"},
	{"SystemTap", `process(?:\("?[^")]*"?\))?\.begin\b`, "proc:::exec-success",
		"tracepoint:sched:sched_process_exec"},
	{"SystemTap", `process(?:\("?[^")]*"?\))?\.end\b`, "proc:::exit",
		"tracepoint:sched:sched_process_exit"},
	{"SystemTap", `(?:nd_)?syscall\.([\w*]+)\.return\b`, "syscall::$1:return",
		"tracepoint:syscalls:sys_exit_$1"},
	{"SystemTap", `(?:nd_)?syscall\.([\w*]+)`, "syscall::$1:entry",
		"tracepoint:syscalls:sys_enter_$1"},
	{"SystemTap", `kernel\.trace\("?(\w+):(\w+)"?\)`, "tracepoint:$1::$2", "tracepoint:$1:$2"},
	{"SystemTap", `kernel\.trace\("?(\w+)"?\)`, "tracepoint:::$1", "tracepoint:*:$1"},
	{"SystemTap", `timer\.s(?:ec)?\((\d+)\)`, "tick-${1}s", "interval:s:$1"},
	{"SystemTap", `timer\.ms(?:ec)?\((\d+)\)`, "tick-${1}ms", "interval:ms:$1"},
	{"SystemTap", `timer\.us(?:ec)?\((\d+)\)`, "tick-${1}us", "interval:us:$1"},
	{"SystemTap", `timer\.hz\((\d+)\)`, "tick-${1}hz", "interval:hz:$1"},
	{"SystemTap", `timer\.profile(?:\.\w+)*\b`, "profile-99", "profile:hz:99"},
	{"SystemTap", `ioblock\.request\b`, "io:::start", "tracepoint:block:block_rq_issue"},
	{"SystemTap", `ioblock\.end\b`, "io:::done", "tracepoint:block:block_rq_complete"},
	{"SystemTap", `scheduler\.(?:ctxswitch|cpu_on)\b`, "sched:::on-cpu",
		"tracepoint:sched:sched_switch"},
	{"SystemTap", `scheduler\.cpu_off\b`, "sched:::off-cpu", "tracepoint:sched:sched_switch"},
	{"SystemTap", `vfs\.(read|write)\b`, "fbt::vfs_$1:entry", "kprobe:vfs_$1"},
	{"SystemTap", `tcp\.(sendmsg|recvmsg|disconnect)\b`, "fbt::tcp_$1:entry", "kprobe:tcp_$1"},
	{"SystemTap", `vm\.pagefault\b`, "vminfo:::as_fault", "software:page-faults:1"},
	{"gdb", `t?break (?:[\w/.-]+:)?([A-Za-z_]\w*)`, "pid$$target:a.out:$1:entry, with -p or -c",
		"uprobe:FILE:$1"},
	{"perf", `p\d*:(?:\w+/)?\w+ ([A-Za-z_]\w*)[^\n{;]*`, "fbt::$1:entry", "kprobe:$1"},
	{"perf", `r\d*:(?:\w+/)?\w+ ([A-Za-z_]\w*)[^\n{;]*`, "fbt::$1:return", "kretprobe:$1"},
}

// probeWord begins a probe of SystemTap.
const probeWord = `^(?:probe\s+)?`

// forms are the patterns of foreign.
//
// table: never changed
var forms = func() (all []*regexp.Regexp) {
	for _, f := range foreign {
		all = append(all, regexp.MustCompile(probeWord+f.form))
	}
	return all
}()

// begins are the words of SystemTap's probes of the begin and the end.
//
// table: never changed
var begins = regexp.MustCompile(`^probe\s+(begin|end)\b`)

// mostProbe bounds the text that is looked at.
const mostProbe = 512

// ForeignProbe returns the probe of SystemTap or perf that a text begins with; ok is false when it
// begins with none.
func ForeignProbe(in Language, text string) (f Foreign, ok bool) {
	text = text[:min(len(text), mostProbe)]
	if m := begins.FindStringSubmatch(text); m != nil {
		return Foreign{m[0], "SystemTap", strings.ToUpper(m[1])}, true
	}
	for i, form := range forms {
		at := form.FindStringSubmatchIndex(text)
		if at == nil {
			continue
		}
		own := foreign[i].d
		if in == Bpftrace {
			own = foreign[i].bpftrace
		}
		return Foreign{strings.TrimSpace(text[:at[1]]), foreign[i].tool,
			string(form.ExpandString(nil, own, text, at))}, true
	}
	return Foreign{}, false
}
