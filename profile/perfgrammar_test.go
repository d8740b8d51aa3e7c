package profile

import (
	"fmt"
	"strings"
	"testing"
)

const perfFrames = "\t          401136 spin+0x6 (/srv/app)\n\t          401180 main+0x10 (/srv/app)\n"

// perfCorpus is a text for each set of fields that perf script -F can print, with its stacks.
//
// table: input and result
var perfCorpus = []struct{ name, in, out string }{
	{"all fields",
		"app 77/78 [000] 10.1:     100 cycles:u: \n" + perfFrames + "\napp 77/79 [001] 10.2:      30 cycles:u: \n" + perfFrames + "\n",
		"app;main;spin 130\n"},
	{"command with a number, no period",
		"worker 3 12346 [000] 10.1: cycles:u:\n" + perfFrames + "\nworker 4 12347 [001] 10.2: cycles:u:\n" + perfFrames + "\n",
		"worker_3;main;spin 1\nworker_4;main;spin 1\n"},
	{"command that is a number", "42 77/83 [000] 10.1:     7 cycles:u: \n" + perfFrames + "\n",
		"42;main;spin 7\n"},
	{"command that begins with a hash",
		"#1 app 77 [000] 10.1:     7 cycles: \n" + perfFrames + "\n", "#1_app;main;spin 7\n"},
	{"no CPU", "a b 3 77 10.1:     5 cycles: \n" + perfFrames + "\n", "a_b_3;main;spin 5\n"},
	{"no command", "77 [000] 10.1:     5 cycles: \n" + perfFrames + "\n",
		"[no command];main;spin 5\n"},
	{"no time", "app 77 [001]     5 cycles: \n" + perfFrames + "\n", "app;main;spin 5\n"},
	{"no event",
		"app 77 [001] 10.1: \n" + perfFrames + "\napp 77 [001] 10.2: \n" + perfFrames + "\n",
		"app;main;spin 2\n"},
	{"command and thread", "app 77\n" + perfFrames + "\napp 3 78\n" + perfFrames + "\n",
		"app;main;spin 1\napp_3;main;spin 1\n"},
	{"command alone",
		"app \n\t          401136 spin\n\t          401180 main\n\napp \n\t          401136 spin\n\n",
		"app;main;spin 1\napp;spin 1\n"},
	{"no file",
		"app 77 10.1:     9 cycles: \n\t          401136 spin+0x6\n\t          401180 f(int)+0x10\n\n",
		"app;f;spin 9\n"},
	{"source lines",
		"app 77 [000] 10.1:     9 cycles: \n\t          401136 spin+0x6 (/srv/app)\n  app.c:7\n\t          401180 main+0x10 (/srv/app)\n  libc.so.6[21b97]\n\n",
		"app;main;spin 9\n"},
	{"branches before",
		"app 77 [000] 10.1:     9 cycles: \n" + perfFrames + " 0x401170/0x401130/P/-/-/3/CALL/-  0x401150/0x401170/P/-/-/1/COND/- \n\n",
		"app;main;spin 9\n"},
	{"instructions, no empty line",
		"app 77 [000] 10.1:     9 cycles: \n\t    401136 spin+0x6 (/srv/app)\n ilen: 3 insn: 48 89 d0\napp 77 [000] 10.2:     4 cycles: \n\t    401140 other (/srv/app)\n ilen: 3 insn: 48\n",
		"app;other 4\napp;spin 9\n"},
	{"tabs of simpleperf",
		"Worker\t77 [007] 10.9:\t\t1000 task-clock:u:\n        b3cea6c4\tLock::unlock() (/lib/libc.so)\n        b3cea535\tmain (/bin/app)\n\n",
		"Worker;main;Lock::unlock 1000\n"},
	{"one line each",
		"  app 77 10.1:   7 cycles:  401136 f+0x1 (x)\n  app 77 10.2:   8 cycles:  401136 f+0x1 (x)\n",
		"app;f 15\n"},
	{"memory accesses",
		"app 77 10.1:   7 cpu/mem-loads,ldlat=30/P: 68100142 |OP LOAD|LVL L1 hit|SNP None|LCK No|BLK  N/A   5  401140 other+0x1 (/srv/app)\n",
		"app;other 7\n"},
	{"branch by branch",
		"app 77 [000] 10.1:  1 branches:u:   call   401180 main+0x10 (/srv/app) =>   401130 spin+0x0 (/srv/app)\n",
		"app;main 1\n"},
	{"tracepoints without stacks",
		"app  77 [001] 10.1: kmem:kfree: call_site=ffffffff81092295 ptr=(nil)\napp  77 [001] 10.2: kmem:kfree: call_site=ffff ptr=(nil)\n",
		"app 2\n"},
	{"kinds of CPUs",
		"app 77 [000] 10.1:   100 cpu_core/cycles/P: \n" + perfFrames + "\napp 77 [013] 10.2:   300 cpu_atom/cycles/P: \n" + perfFrames + "\n",
		"app;main;spin 400\n"},
}

// perfBetween are lines between samples that are not samples.
//
// table: lines of perf script, with the options that print them
var perfBetween = []string{
	"# bpf_prog_info 7: bpf_prog_7cc47bbf07148bfe_hid_tail_call addr 0xffffffffc0a00000 size 128",
	"# ========", "#", "# interval: 100", "# cmdline : /bin/perf record -- sh -c a; sleep 5",
	"app 77/77 10.000000: PERF_RECORD_COMM exec: app:77/77",
	"app 77/77 10.000010: PERF_RECORD_MMAP2 77/77: [0x400000(0x1000) @ 0 08:01 12 0]: r-xp /srv/app",
	"app 77/77 [000] 10.3: PERF_RECORD_EXIT(77:77):(76:76)",
	"app 77 [001] 10.3: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid:    0/0",
	"app 77 PERF_RECORD_LOST lost 17", "perf 0 [000] 0.0: PERF_RECORD_KSYMBOL addr ffffffffc0a00000 len 128 type 1 flags 0x0 name bpf_prog_7",
	" instruction trace error type 1 time 6.708 cpu 2 pid 77 tid 77 ip 0x401136 code 8: Overflow packet",
	"Warning:", "Processed 1000 events and lost 3 chunks!", "Check IO/CPU overload!",
	"addr2line: DWARF error: could not find variable specification at offset 0x12",
	"[ perf record: Captured and wrote 0.1 MB perf.data (12 samples) ]",
	"addr2line: /srv/app: 3 errors", "failed 3 times: trying again", "some tool 12 34 wrote this: 5",
}

func TestPerfFields(t *testing.T) {
	for _, c := range perfCorpus {
		t.Run(c.name, func(t *testing.T) {
			if got := fold(t, c.in, Options{}); got != c.out {
				t.Errorf("got\n%swant\n%s", got, c.out)
			}
		})
	}
}

// boundaries returns where each sample of a text begins, and the text's end.
func boundaries(in string) []int {
	var at []int
	for i := range in {
		if i > 0 && in[i-1] != '\n' {
			continue
		}
		line, _, _ := strings.Cut(in[i:], "\n")
		h, ok := parsePerfHead([]byte(line))
		if i == 0 || ok && h.sure() || strings.HasSuffix(in[:i], "\n\n") {
			at = append(at, i)
		}
	}
	return append(at, len(in))
}

// TestPerfBetweenSamples inserts each line of perfBetween before, between and after the samples of
// each text. The stacks must not change.
func TestPerfBetweenSamples(t *testing.T) {
	for _, c := range perfCorpus {
		places := boundaries(c.in)
		for _, line := range perfBetween {
			for _, at := range append(places, -1) {
				in := c.in
				if at >= 0 {
					in = in[:at] + line + "\n" + in[at:]
				} else { // everywhere, often
					for i := len(places) - 1; i >= 0; i-- {
						in = in[:places[i]] + strings.Repeat(line+"\n", 40) + in[places[i]:]
					}
				}
				if got := fold(t, in, Options{}); got != c.out {
					t.Fatalf("%s, %q at %d: got\n%swant\n%s", c.name, line, at, got, c.out)
				}
			}
		}
	}
}

func TestPerfNames(t *testing.T) {
	for name, want := range map[string]string{
		"std::unique_ptr<Node, std::default_delete<Node> >::operator->() const": "std::unique_ptr<Node, std::default_delete<Node> >::operator->",
		"P<T>::operator->*(int)":           "P<T>::operator->*",
		"Less::operator()(int, int) const": "Less::operator()",
		"Less::operator()":                 "Less::operator()",
		"V::operator[](unsigned long)":     "V::operator[]",
		"std::operator<< <std::char_traits<char> >(std::ostream&, char const*)":            "std::operator<< <std::char_traits<char> >",
		"bool operator><int>(Box<int> const&, Box<int> const&)":                            "bool operator><int>",
		"bool operator< <int>(Box<int> const&)":                                            "bool operator< <int>",
		"A::operator<=>(A const&) const":                                                   "A::operator<=>",
		"operator new(unsigned long)":                                                      "operator new",
		"<alloc::boxed::Box<F,A> as core::ops::function::FnOnce<(i32) -> i32>>::call_once": "<alloc::boxed::Box<F,A> as core::ops::function::FnOnce<(i32) -> i32>>::call_once",
		"core::ops::function::FnOnce<fn(i32) -> i32>::call":                                "core::ops::function::FnOnce<fn(i32) -> i32>::call",
		"main.(*T).run": "main.(*T).run",
	} {
		in := fmt.Sprintf("app 77 [000] 10.1: 1 cycles: \n\t 401136 %s+0x6 (/srv/app)\n\n", name)
		if got := fold(t, in, Options{}); got != "app;"+want+" 1\n" {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestPerfWithoutHeads reads the output of perf script of two samples for each choice of few
// fields.
func TestPerfWithoutHeads(t *testing.T) {
	const unknown = "\t               0 [unknown]\n"
	tests := []struct{ fields, in, want string }{
		{"ip,sym",
			"\t           27253 f\n\t           99352 g\n\n\t           27253 f\n" + unknown + "\n",
			"[no command];[unknown];f 1\n[no command];g;f 1\n"},
		{"ip", "\t           27253\n\n\t        401136ab\n\n", "[no command];[unknown] 2\n"},
		{"comm,ip", "app \n\t           27253\n\n", "app;[unknown] 1\n"},
		{"comm,ip,sym", "app \n\t             1a2 f\n" + unknown + "\n", "app;[unknown];f 1\n"},
		{"ip,sym,dso", "\t              f2 f (/bin/a)\n\t           99352 g (/bin/a)\n\n",
			"[no command];g;f 1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.fields, func(t *testing.T) {
			if got := fold(t, tt.in, Options{}); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}
