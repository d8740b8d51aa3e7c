package complete

import (
	"regexp"
	"strings"

	"culprit/lang/check"
)

// A Word is something that may be written at a place.
type Word struct {
	Text string
	Kind string // variable, function, provider, probe, field ...
	Help string // a type, a prototype or a few words; ""
}

// meanings explain the words that are used most.
//
// table: name to a few words
var meanings = map[string]string{
	"execname": "name of the thread", "pid": "ID of the process", "tid": "ID of the thread",
	"ppid": "ID of the parent process", "uid": "ID of the user", "cpu": "number of the CPU",
	"timestamp":     "ns, for differences",
	"walltimestamp": "ns since 1970", "vtimestamp": "ns of CPU time of the thread",
	"errno":     "error of the system call; 0: none",
	"probefunc": "function of the probe", "probename": "name of the probe",
	"curthread": "the thread: struct task_struct *", "execargs": "command line of the process",
	"arg0":  "first argument, as a number; after a system call what it returned",
	"stack": "stack of the kernel: @[stack()] = count()", "ustack": "stack of the program",
	"printf": `printf("%s %d\n", execname, pid)`, "printa": "prints an aggregation",
	"trace": "prints a value", "print": "prints a struct with its fields",
	"trunc": "empties an aggregation, or keeps its largest rows", "clear": "sets an aggregation to 0",
	"tracemem": "prints bytes", "normalize": "divides an aggregation",
	"quiet": "prints only what the script prints", "destructive": "allows actions that change things",
}

// descriptions are texts without a provider that may begin a clause.
//
// table: probe to a few words
var descriptions = []Word{
	{"BEGIN", "probe", "when the script starts"},
	{"END", "probe", "when the script ends"},
	{"ERROR", "probe", "when a clause fails"},
	{"tick-1s", "probe", "each second, on one CPU"},
	{"profile-97", "probe", "97 times a second, on each CPU"},
}

// providers are the providers of culprit.
//
// table: provider to a few words
var providers = []Word{
	{"syscall", "provider", "system calls: entry and return"},
	{"fbt", "provider", "functions of the kernel: entry and return"},
	{"sdt", "provider", "tracepoints, with the kernel's types"},
	{"tracepoint", "provider", "trace events: args.FIELD"},
	{"rawtp", "provider", "raw tracepoints: arg0 ..."},
	{"io", "provider", "disk requests: start and done"},
	{"proc", "provider", "processes: create, exec, exit, signals"},
	{"sched", "provider", "on-cpu, off-cpu, wakeup, enqueue"},
	{"tcp", "provider", "connections: connect, accept, send, receive, state-change"},
	{"udp", "provider", "datagrams: send and receive"},
	{"ip", "provider", "packets: send and receive"},
	{"lockstat", "provider", "locks of the kernel that threads wait for"},
	{"vminfo", "provider", "page faults and paging"},
	{"sysinfo", "provider", "system calls by group, context switches"},
	{"profile", "provider", "at a rate on each CPU: profile-97"},
	{"software", "provider", "software events of perf: faults, migrations"},
	{"hardware", "provider", "hardware counters: cycles, cache misses"},
	{"uprobe", "provider", "functions of a file, in all processes: uprobe:FILE:FUNCTION"},
	{"uretprobe", "provider", "returns of functions of a file"},
	{"file", "provider", "functions of a file, entry and return: file:FILE:FUNCTION:entry"},
	{"usdt", "provider", "probes that programs have: usdt:FILE:PROVIDER:NAME"},
	{"dtrace", "provider", "BEGIN, END and ERROR"},
}

// keywords are words of D that are no names.
//
// table: word to a few words
var keywords = []Word{
	{"self->", "variable", "a variable of the thread"},
	{"this->", "variable", "a variable of the clause"},
	{"args", "variable", "arguments of the probe, with types"},
	{"if", "keyword", "if (...) { ... } else { ... }"},
	{"else", "keyword", ""}, {"sizeof", "keyword", "size of a type in bytes"},
	{"curpsinfo", "variable", "the process: psinfo_t *"},
	{"curlwpsinfo", "variable", "the thread: lwpsinfo_t *"},
}

var (
	assigned = regexp.MustCompile(`(@|self\s*->\s*|this\s*->\s*)?\b([A-Za-z_]\w*)\s*(?:\[[^\]\n]*\])?\s*(?:[-+*/|&]?=[^=]|\+\+|--)`)
	declared = regexp.MustCompile(`(?m)^\s*(?:(self|this)\s+)?(?:unsigned\s+)?[A-Za-z_]\w*(?:\s*\*\s*|\s+)([A-Za-z_]\w*)\s*(?:\[[^\]\n]*\])?\s*;`)
)

// A scope says of whom a variable of a text is.
type scope string

// The scopes, by what stands before a variable's name.
const (
	global      scope = ""
	ofThread    scope = "self"
	ofClause    scope = "this"
	aggregating scope = "@"
)

// maxText is how many bytes of a text are searched for variables.
const maxText = 64 << 10

// variables returns the names of a scope to which a text assigns, in the order of the text.
func variables(text string, of scope) []string {
	text = text[:min(len(text), maxText)]
	var out []string
	seen := map[string]bool{}
	add := func(in, name string) {
		in = strings.TrimRight(strings.TrimSpace(in), "-> \t")
		if scope(in) == of && !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	for _, m := range declared.FindAllStringSubmatch(text, -1) {
		add(m[1], m[2])
	}
	for _, m := range assigned.FindAllStringSubmatch(text, -1) {
		add(m[1], m[2])
	}
	return out
}

// namesOf returns the predefined names of some kinds.
func namesOf(kinds ...check.WordKind) []Word {
	var out []Word
	for _, w := range check.Words() {
		for _, k := range kinds {
			if w.Kind != k {
				continue
			}
			help := w.Proto
			if m := meanings[w.Name]; m != "" {
				help = m
			}
			text := w.Name
			if k == check.WordFunction || k == check.WordAction || k == check.WordAggregating {
				text += "("
			}
			out = append(out, Word{text, string(w.Kind), help})
		}
	}
	return out
}

// beginning returns the words that begin with a prefix, whatever the case, in their order.
func beginning(words []Word, prefix string) []Word {
	prefix = strings.ToLower(prefix)
	var out []Word
	for _, w := range words {
		if strings.HasPrefix(strings.ToLower(w.Text), prefix) {
			out = append(out, w)
		}
	}
	return out
}
