package profile

import (
	"strings"
	"testing"

	"culprit/heapbound"
)

const jstackText = `2024-05-01 12:00:00
Full thread dump OpenJDK 64-Bit Server VM (17.0.1+12 mixed mode):

"pool-1-thread-7" #12 prio=5 os_prio=0 tid=0x00007f nid=0x1c runnable [0x00007f]
   java.lang.Thread.State: RUNNABLE
	at java.io.FileInputStream.readBytes(Native Method)
	- locked <0x00000000> (a java.io.BufferedInputStream)
	at org.example.Main.run(Main.java:12)

"pool-1-thread-8" #13 prio=5 os_prio=0 tid=0x00008f nid=0x1d runnable [0x00008f]
   java.lang.Thread.State: RUNNABLE
	at java.io.FileInputStream.readBytes(Native Method)
	at org.example.Main.run(Main.java:12)

"main" #1 prio=5 os_prio=0 tid=0x01 nid=0x01 in Object.wait() [0x00007f]
   java.lang.Thread.State: WAITING (on object monitor)
	at java.lang.Object.wait(Native Method)

"poller" #2 prio=5 nid=0x02 runnable
   java.lang.Thread.State: RUNNABLE
	at sun.nio.ch.EPollArrayWrapper.epollWait(Native Method)

"C2 CompilerThread0" #5 daemon prio=9 nid=0x15 waiting on condition
   java.lang.Thread.State: RUNNABLE

"VM Thread" os_prio=0 tid=0x00007f nid=0x9 runnable

JNI global references: 12

`

const gdbText = `Thread 2 (Thread 0x7f8b1c7d2740 (LWP 1234)):
#0  0x00007f8b1bd2c9d3 in epoll_wait () from /lib64/libc.so.6
#1  0x00000000004007c0 in loop (n=12) at loop.c:12
#2  main (argc=1, argv=0x7ffd) at main.c:12

Thread 1 (Thread 0x7f8b1c7d2741 (LWP 1235)):
#0  epoll_wait () from /lib64/libc.so.6
#1  0x00000000004007c0 in loop (n=12) at loop.c:12
#2  main (argc=1, argv=0x7ffd) at main.c:12

`

const euStackText = `PID 77 - process
TID 77:
#0  0x00007f8b5f9d1e9d poll
#1  0x00007f8b5f9d1000
#2  0x000000000040113e main
TID 78:
#0  0x00007f8b5f9d1e9d poll
#1  0x000000000040113e main
`

const faultText = `Timeout (0:00:05)!
Thread 0x00007f8b1c7d2740 (most recent call first):
  File "/usr/lib/python3/threading.py", line 324 in wait
  File "/srv/app.py", line 12 in <module>

Current thread 0x00007f8b1c7d2741 (most recent call first):
  File "/srv/app.py", line 12 in <module>
`

const goRawText = `PeriodType: cpu nanoseconds
Period: 10000000
Time: 2024-05-01 12:00:00.1 +0000 UTC
Duration: 1.21
Samples:
samples/count cpu/nanoseconds
          3   30000000: 1 2 3 
          1   10000000: 4 3 
                bytes:[64]
          2   20000000: 1 2 3 
Locations
     1: 0x46d2f3 M=1 runtime.futex /usr/lib/go/src/runtime/sys_linux_amd64.s:557:0 s=549
     2: 0x439c70 M=1 runtime.futexsleep /usr/lib/go/src/runtime/os_linux.go:69:0 s=50
     3: 0x46beb3 M=1 main.main /srv/main.go:12:0 s=10
     4: 0x46beb9 M=1 main.work[...] /srv/main.go:22:0 s=20
Mappings
1: 0x400000/0x48d000/0x0 /srv/main  [FN]
`

const inlinedText = `PeriodType: cpu nanoseconds
Samples:
alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes[dflt]
          3   30: 1 2: 1 2
          3   48          1         16: 1 2
Locations
     1: 0x46d2f3 M=1 main.inner /srv/main.go:5:0 s=4
             main.outer /srv/main.go:9:0 s=8
     2: 0x439c70 M=1 main.(*T[go.shape.struct { X int }]).main /srv/main.go:69:0 s=50
Mappings
`

const sampleText = `Analysis of sampling rg (pid 64751) every 1 millisecond
Call graph:
    10 Thread_1   DispatchQueue_1: com.apple.main-thread  (serial)
    + 10 start  (in libdyld.dylib) + 1  [0x7fff737cf3d5]
    +   7 -[NSApplication(Events) run]  (in AppKit) + 41  [0x10384b549]
    +   ! 4 std::f(int)  (in rg) + 41  [0x10384b549]
    +   2 kevent  (in libsystem_kernel.dylib) + 10  [0x7fff]
    5 Thread_2
      5 __select  (in libsystem_kernel.dylib) + 10  [0x7fff]

Total number in stack (recursive counted multiple, when >=5):
        5       ignored
`

const vtuneText = "Function Stack,CPU Time:Self,Module\nTotal,0.0,[Unknown]\n main,0.0105,a.exe\n  \"f<a, \"\"b\"\">\",1.5,a.exe\n g,0.002,b.dll\n"

const vsText = "\xef\xbb\xbfLevel,Function Name,Number of Calls,Module Name,\r\n0,\"a.exe\",0,\"\",\r\n1,\"main(a,b)\",5,\"a.exe\",\r\n2,\"f;g\",\"1,003\",\"a.exe\",\r\n2,\"h\",2,\"a.exe\",\r\n1,\"exit\",1,\"\",\r\n"

const ghcText = `	Sun Aug  6 14:52 2023 Time and Allocation Profiling Report  (Final)

COST CENTRE  MODULE  SRC            no.  entries  %time %alloc   %time %alloc  ticks     bytes

MAIN         MAIN    <built-in>     129        0    0.5    0.0   100.0  100.0      0         0
 main        Main    Main.hs:(1,1)  259        0   30.4    9.4    99.5   99.0      7   5617272
  f          Main    Main.hs:(2,1)  260        0   69.1   90.6    69.1   90.6      9   1617272
`

const xctraceText = `<?xml version="1.0"?>
<trace-query-result><node xpath='x'><row><backtrace id="1"><frame id="2" name="f&lt;a;b&gt;" addr="0x1"/><frame id="3" name="main" addr="0x2"><binary id="9" name="x"/></frame></backtrace></row>
<row><backtrace ref="1"/></row><row><backtrace id="4"><frame id="5" name="g::h0123456789abcdef" addr="0x3"/><frame ref="3"/></backtrace></row></node></trace-query-result>
`

const v8Text = `{"nodes":[{"id":1,"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},"hitCount":0,"children":[2,4]},
{"id":2,"callFrame":{"functionName":"main","url":"file:///srv/app.js","lineNumber":9},"hitCount":1,"children":[3]},
{"id":3,"callFrame":{"functionName":"","url":"file:///srv/app.js","lineNumber":19},"hitCount":2},
{"id":4,"callFrame":{"functionName":"(idle)","url":""},"hitCount":1}],
"startTime":1000,"endTime":2000,"samples":[2,3,3,4],"timeDeltas":[100,200,100,300]}`

const bpftraceJSONText = `{"type": "attached_probes", "data": {"probes": 1}}
{"type": "printf", "data": "hello"}
{"type": "map", "data": {"@": {"\n    native_safe_halt+14\n    cpu_startup_entry+25\n,swapper": 42, "cat,\n    vfs_read+1\n": 2}}}
{"type": "map", "data": {"@n": 12}}
`

const twiceText = "main;a 1 10\nmain;b;c 2.5 0\nmain 0 3\n"

func TestMoreFormats(t *testing.T) {
	for _, c := range []struct {
		in     string
		is     Format
		out    string
		unit   string
		o      Options
		noted  string
		sample float64
	}{
		{in: jstackText, is: JStack, out: "pool-1-thread-*;org.example.Main.run;java.io.FileInputStream.readBytes 2\n", noted: "left out: of the jvm (1), waiting (1), waiting for events (1)"},
		{in: jstackText, is: JStack, o: Options{TID: true}, out: "pool-1-thread-7;org.example.Main.run;java.io.FileInputStream.readBytes 1\npool-1-thread-8;org.example.Main.run;java.io.FileInputStream.readBytes 1\n", noted: "threads that run alone"},
		{in: gdbText, is: Debugger, out: "main;loop;epoll_wait 2\n"},
		{in: "#0  ns::f<int, char> (this=0x0, a=@0x1)\n    at x.c:1\n#1  operator() (x=1) at y.c:2\n#2  (anonymous namespace)::go(void (*)(int)) (p=1) at y.c:3\n#3  <signal handler called>\n", is: Debugger,
			out: "<signal handler called>;(anonymous namespace)::go(void (*)(int));operator();ns::f<int, char> 1\n"},
		{in: euStackText, is: Debugger, out: "main;[unknown];poll 1\nmain;poll 1\n"},
		{in: euStackText, is: Debugger, o: Options{TID: true}, out: "TID=77;main;[unknown];poll 1\nTID=78;main;poll 1\n"},
		{in: faultText, is: Debugger, out: "/srv/app.py:12:<module> 1\n/srv/app.py:12:<module>;/usr/lib/python3/threading.py:324:wait 1\n"},
		{in: goRawText, is: GoRaw, out: "main.main;main.work[...] 1\nmain.main;runtime.futexsleep;runtime.futex 5\n"},
		{in: goRawText, is: GoRaw, o: Options{Value: "cpu"}, out: "main.main;main.work[...] 10000000\nmain.main;runtime.futexsleep;runtime.futex 50000000\n", unit: "ns"},
		{in: inlinedText, is: GoRaw, out: "main.(*T[go.shape.struct { X int }]).main;main.outer;main.inner 16\n", unit: "bytes", noted: "1 line is left out, the first is line 4"},
		{in: sampleText, is: Sample, out: "Thread_1   DispatchQueue_1: com.apple.main-thread;libdyld`start 1\nThread_1   DispatchQueue_1: com.apple.main-thread;libdyld`start;AppKit`-[NSApplication(Events) run] 3\n" +
			"Thread_1   DispatchQueue_1: com.apple.main-thread;libdyld`start;AppKit`-[NSApplication(Events) run];rg`std::f 4\n", noted: "7 samples of threads that waited left out"},
		{in: vtuneText, is: VTune, out: "[Unknown]`Total;a.exe`main 11\n[Unknown]`Total;a.exe`main;a.exe`f<a, \"b\"> 1500\n[Unknown]`Total;b.dll`g 2\n", unit: "ms"},
		{in: vsText, is: VisualStudio, out: "exit 1\nmain(a,b) 3\nmain(a,b);f:g 1003\nmain(a,b);h 2\n", unit: "calls"},
		{in: ghcText, is: GHC, out: "MAIN.MAIN 5\nMAIN.MAIN;Main.main 304\nMAIN.MAIN;Main.main;Main.f 691\n", unit: "per mille"},
		{in: ghcText, is: GHC, o: Options{Value: "bytes"}, out: "MAIN.MAIN;Main.main 5617272\nMAIN.MAIN;Main.main;Main.f 1617272\n", unit: "bytes"},
		{in: xctraceText, is: XCTrace, out: "main;f<a:b> 2\nmain;g 1\n"},
		{in: v8Text, is: V8, out: "(idle) 300000\nmain 200000\nmain;(anonymous) 400000\n", unit: "ns", sample: 4},
		{in: strings.Replace(v8Text, `"timeDeltas"`, `"x"`, 1), is: V8, out: "(idle) 1\nmain 1\nmain;(anonymous) 2\n"},
		{in: `{"head":{"functionName":"(root)","url":"","lineNumber":0,"id":1,"hitCount":0,"children":[{"functionName":"f","url":"","lineNumber":1,"id":2,"hitCount":3,"children":[]}]},"startTime":1,"endTime":2}`, is: V8, out: "f 3\n"},
		{in: bpftraceJSONText, is: BPFTraceJSON, out: "swapper;cpu_startup_entry;native_safe_halt 42\nvfs_read;cat 2\n"},
		{in: twiceText, is: FoldedTwice, out: "main 3\nmain;a 10\n", noted: "two amounts"},
		{in: twiceText, is: FoldedTwice, o: Options{Amount: 1}, out: "main;a 1\nmain;b;c 2.5\n"},
		// Names that end with a number are not amounts when another line has only one number.
		{in: "main;a 1 10\nmain;b 3\n", is: Folded, out: "main;a 1 10\nmain;b 3\n"},
	} {
		name, _, _ := strings.Cut(c.in, "\n")
		if is := DetectFormat([]byte(c.in), true); is != c.is {
			t.Errorf("%s: is %s", name, is)
		}
		tree, err := Read(never, strings.NewReader(c.in), name, c.o)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := folded(t, tree); got != c.out {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.out)
		}
		if unit := tree.Unit; c.unit != "" && unit != c.unit ||
			c.unit == "" && unit != "samples" && c.is != V8 {
			t.Errorf("%s: unit %s", name, unit)
		}
		if said := strings.Join(tree.Notes, "\n"); c.noted == "" && said != "" ||
			!strings.Contains(said, c.noted) {
			t.Errorf("%s: notes %q, want %q", name, said, c.noted)
		}
		if c.sample > 0 && tree.Samples != c.sample {
			t.Errorf("%s: %v samples", name, tree.Samples)
		}
	}
}

func TestMoreErrors(t *testing.T) {
	for in, want := range map[string]string{
		xctraceText[:300]: "f:3: XML: unexpected EOF",
		xctraceText[:strings.LastIndex(xctraceText, "<row>")]:        "f:3: xctrace: the input is cut off",
		strings.Replace(xctraceText, `ref="3"`, `ref="7"`, 1):        `f:3: xctrace: a reference to an unknown frame, "7"`,
		strings.Replace(v8Text, `"hitCount":2`, `"children":[2]`, 1): "f:byte 0: .cpuprofile: node 3 calls node 2, which has a caller",
		v8Text[:300]:                              "f:byte 300: JSON: cut off",
		"Function Stack,Module\nmain,x\n":         "f:1: VTune: no column CPU Time:Self",
		"Call graph:\n    x main\n":               "f:2: no number of samples before the function",
		"Samples:\na/count b/bytes\n 1 2: x\n":    "f:3: no amounts and locations",
		ghcText[:strings.Index(ghcText, "MAIN ")]: "f:4: no cost centres in it",
	} {
		_, err := Read(never, strings.NewReader(in), "f", Options{})
		if err == nil || err.Error() != want {
			t.Errorf("%.60q: %v, want %s", in, err, want)
		}
	}
	for in, value := range map[string]string{goRawText: "faults", ghcText: "faults"} {
		if _, err := Read(never, strings.NewReader(in), "f", Options{Value: value}); err == nil ||
			!strings.Contains(err.Error(), "no amount faults: there are ") {
			t.Errorf("%.60q: %v", in, err)
		}
	}
}

func FuzzSample(f *testing.F)       { fuzzText(f, Sample, sampleText) }
func FuzzVTune(f *testing.F)        { fuzzText(f, VTune, vtuneText) }
func FuzzVisualStudio(f *testing.F) { fuzzText(f, VisualStudio, vsText) }
func FuzzGHC(f *testing.F)          { fuzzText(f, GHC, ghcText) }
func FuzzDebugger(f *testing.F)     { fuzzText(f, Debugger, gdbText, euStackText, faultText) }
func FuzzJStack(f *testing.F)       { fuzzText(f, JStack, jstackText) }
func FuzzGoRaw(f *testing.F)        { fuzzText(f, GoRaw, goRawText, inlinedText) }
func FuzzBPFTraceJSON(f *testing.F) { fuzzText(f, BPFTraceJSON, bpftraceJSONText) }
func FuzzFoldedTwice(f *testing.F)  { fuzzText(f, FoldedTwice, twiceText) }

func FuzzV8(f *testing.F) {
	f.Add(v8Text)
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, text string) {
		if tree, err := readV8(strings.NewReader(text), Options{}); err == nil {
			checkTree(t, tree)
			checkWriters(t, tree)
		}
	})
}

func FuzzXCTrace(f *testing.F) {
	f.Add(xctraceText)
	heapbound.FuzzWithin(f, treeLimit(), func(t *testing.T, text string) {
		if tree, err := readXCTrace(strings.NewReader(text), Options{}); err == nil {
			checkTree(t, tree)
			checkWriters(t, tree)
		}
	})
}
