package profile

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

func TestPoolName(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"worker-17", "worker-*"},
		{"pool-1-thread-7", "pool-1-thread-*"},
		{"GC Thread#3", "GC Thread#*"},
		{"ib_io_4", "ib_io_*"},
		{"ksoftirqd/0", "ksoftirqd/*"},
		{"Thread 12", "Thread *"},
		{"wrk:worker:2", "wrk:worker:*"},
		{"kworker/3:1H-kblockd", "kworker/*"},
		{"python3", "python3"},
		{"python3.12", "python3.12"},
		{"worker", "worker"},
		{"worker-1a", "worker-1a"},
		{"-7", "-7"},
		{"42", "42"},
		{"", ""},
	} {
		if got := PoolName(tt.name); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRootFrames(t *testing.T) {
	id := strings.Repeat("3f2a", 16)
	of := Thread{Process: "java", Name: "worker-17", PID: 12, TID: 34, Cgroup: "/docker/" + id}
	for _, tt := range []struct {
		name  string
		roots Roots
		of    Thread
		want  string
	}{
		{"order", Roots{By: []string{"thread", "container", "process"}}, of, "worker-*;docker:3f2a3f2a3f2a;java"},
		{"IDs", Roots{By: []string{"process", "thread"}, PIDs: true, TIDs: true}, of, "java-12;worker-17-34"},
		{"PIDs", Roots{By: []string{"process", "thread"}, PIDs: true}, of, "java-12;worker-*"},
		{"no container", Roots{By: []string{"container"}}, Thread{Cgroup: "/system.slice/nginx.service"}, "[no container]"},
		{"removed group", Roots{By: []string{"container"}}, Thread{}, "[container unknown]"},
		{"no names", Roots{By: []string{"process", "thread"}}, Thread{PID: 12}, "[process 12];[thread without a name]"},
		{"idle", Roots{By: []string{"process"}}, Thread{Name: "swapper/3"}, "swapper/3"},
		{"no ID", Roots{By: []string{"process"}}, Thread{Name: "a", PID: -1}, "[process unknown]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(tt.roots.Frames(tt.of), ";"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// perfThreads is perf script -F +pid of three processes: of 20 the first thread is not sampled.
const perfThreads = `
java main 10/10 5.1: 3 cpu-clock:
	1 start (/bin/java)

worker-1 10/11 5.2: 5 cpu-clock:
	1 run (/bin/java)

worker-2 10/12 5.3: 7 cpu-clock:
	1 run (/bin/java)

worker-2 20/21 5.4: 11 cpu-clock:
	1 run (/bin/java)

java main 30/30 5.5: 13 cpu-clock:
	1 start (/bin/java)

`

// The frames at the root are those that are requested, in their order. The name of a process is
// that of its first thread, wherever in the file that is.
func TestPerfBy(t *testing.T) {
	parts := strings.SplitAfter(perfThreads, "\n\n")
	slices.Reverse(parts)
	for _, tt := range []struct {
		name string
		in   string
		o    Options
		want string
	}{
		{"names", perfThreads, Options{By: []string{"process", "thread"}},
			"[process 20];worker-*;run 11\njava_main;java_main;start 16\njava_main;worker-*;run 12\n"},
		{"backwards", "\n" + strings.Join(parts, ""), Options{By: []string{"process", "thread"}},
			"[process 20];worker-*;run 11\njava_main;java_main;start 16\njava_main;worker-*;run 12\n"},
		{"threads first", perfThreads, Options{By: []string{"thread", "process"}},
			"java_main;java_main;start 16\nworker-*;[process 20];run 11\nworker-*;java_main;run 12\n"},
		{"IDs", perfThreads, Options{By: []string{"process", "thread"}, PID: true, TID: true},
			"[process 20];worker-2-21;run 11\njava_main-10;java_main-10;start 3\n" +
				"java_main-10;worker-1-11;run 5\njava_main-10;worker-2-12;run 7\njava_main-30;java_main-30;start 13\n"},
		{"unnamed", strings.ReplaceAll(perfThreads, "worker-2 20/21", ":21 20/21"),
			Options{By: []string{"thread"}}, "[thread without a name];run 11\njava_main;start 16\nworker-*;run 12\n"},
		{"threads", perfThreads, Options{By: []string{"thread"}}, "java_main;start 16\nworker-*;run 23\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Read(never, strings.NewReader(tt.in), "", tt.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := folded(t, tree); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
			unnamed := strings.Contains(strings.Join(tree.Notes, "\n"), "1 process has no name")
			if unnamed != strings.Contains(tt.want, "[process 20]") {
				t.Errorf("notes %q", tree.Notes)
			}
		})
	}
}

// perf.data has the command of each process.
func TestPerfDataBy(t *testing.T) {
	in := perfRecording(t, "pipe")
	tree, err := Read(never, bytes.NewReader(in), "",
		Options{By: []string{"thread", "process"}, PID: true, TID: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := folded(t, tree); !strings.HasPrefix(got, "tiny-2724;tiny-2724;[libc.so.6];") {
		t.Errorf("got %s", got)
	}
}

// A field that the file does not have is an error that names it, the format and what to do.
func TestByUnknown(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		o        Options
		want     string
	}{
		{"folded", "a;b 1\n", Options{By: []string{"process"}},
			"f:1: --by process: the format, folded, does not name the process of a stack; without --by"},
		{"container", perfThreads, Options{By: []string{"process", "container"}},
			"--by container: the format, perf script, does not name the container of a stack, only the process and the thread"},
		{"jstack", jstackText, Options{By: []string{"process"}}, "only the thread"},
		{"DTrace", dtraceText, Options{By: []string{"thread"}}, "perf script and perf.data have process and thread"},
		{"perf's default", "java 11 5.2: 5 cpu-clock:\n\t1 run (/bin/java)\n\n", Options{By: []string{"process"}},
			"f:1: perf script: the sample has no field pid: perf script -F +pid prints it"},
		{"perf without threads", "java 5.2: 5 cpu-clock:\n\t1 run (/bin/java)\n\n",
			Options{By: []string{"thread"}, TID: true}, "perf script -F +tid prints it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(never, strings.NewReader(tt.in), "f", tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// Recorded samples are grouped by the processes and control groups that were recorded with them.
func TestRecordedBy(t *testing.T) {
	over := measure.Interval{Start: 1_772_366_400e9, End: 1_772_366_410e9}
	for _, tt := range []struct {
		name string
		r    ownedReader
		p    Part
		want string
	}{
		{"names", ownedReader{}, Part{By: []string{"process", "thread"}},
			"[process unknown];worker;main 5\nnginx;worker;main;send 20\nnginx;worker;main;send;tcp_sendmsg 30\n"},
		{"IDs", ownedReader{}, Part{By: []string{"container", "process"}, Numbers: true},
			"[container unknown];[process 13];main 5\n[no container];nginx-11;main;send 20\n" +
				"[no container];nginx-12;main;send;tcp_sendmsg 30\n"},
		{"unrecorded", ownedReader{unnamed: true}, Part{By: []string{"thread"}},
			"worker;main 5\nworker;main;send 20\nworker;main;send;tcp_sendmsg 30\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.p.Over = over
			got, err := AskRecorded(t.Context(), tt.r, tt.p)
			if err != nil {
				t.Fatal(err)
			}
			if text := folded(t, got.Tree); text != tt.want {
				t.Errorf("got\n%swant\n%s", text, tt.want)
			}
		})
	}
}
