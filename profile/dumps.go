package profile

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Debuggers print the stacks of all threads at one moment. Each stack is a sample. Several dumps in
// a row are a profile.

// debuggerLines reads bt and thread apply all bt of gdb, eu-stack, pstack, and Python's
// faulthandler: a line per frame, innermost first.
//
//	Thread 1 (Thread 0x7f8b1c7d2740 (LWP 1234)):
//	#0  0x00007f8b1bd2c9d3 in epoll_wait () from /lib64/libc.so.6
//	#1  main (argc=1, argv=0x7ffd) at main.c:12
//
//	TID 1234:
//	#0  0x00007f8b5f9d1e9d poll
//
//	Thread 0x00007f8b1c7d2740 (most recent call first):
//	  File "/usr/lib/python3/threading.py", line 324 in wait
type debuggerLines struct {
	b     *Builder
	o     Options
	above uint32 // the process or thread of the stack; 0: it is not wanted
	pid   []byte
	stack []uint32 // innermost first
	found bool
}

func newDebugger(o Options) *debuggerLines { return &debuggerLines{b: o.builder(), o: o} }

func (d *debuggerLines) line(b []byte, _ int) error {
	switch {
	case len(b) > 1 && b[0] == '#' && b[1] >= '0' && b[1] <= '9':
		number, rest, _ := bytes.Cut(b[1:], []byte(" "))
		if string(number) == "0" {
			d.done()
		}
		d.frame(bytes.TrimSpace(rest))
	case bytes.HasPrefix(b, []byte(`  File "`)):
		d.python(b[len(`  File "`):])
	case len(b) > 0 && (b[0] == ' ' || b[0] == '\t') && len(d.stack) > 0:
		// More about a frame: arguments, source lines.
	default:
		d.done()
		if id, ok := bytes.CutPrefix(b, []byte("PID ")); ok && d.o.PID {
			d.pid = slices.Clone(firstWord(id))
			d.above = d.b.Function(append([]byte("PID="), d.pid...), nil, Process)
		}
		if id, ok := bytes.CutPrefix(b, []byte("TID ")); ok && d.o.TID {
			d.above = d.b.Function(append([]byte("TID="), firstWord(id)...), nil, Process)
		}
	}
	return nil
}

// firstWord returns a text up to the first blank or colon.
func firstWord(b []byte) []byte {
	if i := bytes.IndexAny(b, " \t:"); i >= 0 {
		return b[:i]
	}
	return b
}

// frame parses the part of a frame after the number: 0xaddress in name (arguments) from file, name
// (arguments) at source, or 0xaddress name - file.
func (d *debuggerLines) frame(b []byte) {
	var module []byte
	address, rest, more := bytes.Cut(b, []byte(" "))
	if isAddress := bytes.HasPrefix(address, []byte("0x")) && isHex(address[2:]); isAddress ||
		len(b) == 0 {
		if b = bytes.TrimSpace(rest); !more || len(b) == 0 {
			b = []byte("[unknown]")
		}
		b = bytes.TrimPrefix(b, []byte("in "))
	}
	if i := bytes.LastIndex(b, []byte(" from ")); i > 0 {
		module, b = baseName(b[i+6:]), b[:i]
	} else if i := bytes.LastIndex(b, []byte(" - ")); i > 0 {
		module, b = baseName(b[i+3:]), b[:i]
	}
	// The arguments of a call follow a blank, those of a function's type don't.
	depth := 0
	for i, c := range b {
		switch c {
		case '<', '[', '{':
			depth++
		case '>', ']', '}':
			depth--
		case '(':
			if depth <= 0 && i > 0 && b[i-1] == ' ' &&
				!bytes.HasPrefix(b[i:], []byte("(anonymous namespace)")) &&
				!bytes.HasSuffix(b[:i], []byte("operator ")) {
				b = b[:i-1]
			} else {
				depth++
				continue
			}
		case ')':
			depth--
			continue
		default:
			continue
		}
		if c == '(' {
			break
		}
	}
	if len(b) == 0 {
		b = []byte("[unknown]")
	}
	d.stack = append(d.stack,
		d.b.Function(replaced(slices.Clone(withoutRust(b)), ';', ':'), module, Code))
}

// python parses a frame of faulthandler after its first quote. Its name is file:line:function.
func (d *debuggerLines) python(b []byte) {
	file, rest, ok := bytes.Cut(b, []byte(`", line `))
	line, name, ok2 := bytes.Cut(rest, []byte(" in "))
	if !ok || !ok2 {
		return
	}
	text := slices.Concat(file, []byte(":"), line, []byte(":"), name)
	d.stack = append(d.stack, d.b.Function(replaced(text, ';', ':'), nil, Code))
}

func (d *debuggerLines) done() {
	if len(d.stack) == 0 {
		return
	}
	if d.above != 0 {
		d.stack = append(d.stack, d.above)
	}
	slices.Reverse(d.stack)
	d.b.Stack(d.stack, 1)
	d.stack, d.found = d.stack[:0], true
}

func (d *debuggerLines) end(lines int) (*Tree, error) {
	d.done()
	if !d.found {
		return nil, &ParseError{Line: max(1, lines), What: "no stacks in it"}
	}
	return d.b.Tree(), nil
}

// jstackLines reads the dumps of jstack, jcmd Thread.print and a JVM's SIGQUIT.
//
//	"pool-1-thread-7" #12 prio=5 os_prio=0 tid=0x00007f nid=0x1c runnable [0x00007f]
//	   java.lang.Thread.State: RUNNABLE
//		at java.io.FileInputStream.readBytes(Native Method)
//		- locked <0x00000000> (a java.io.BufferedInputStream)
//		at org.example.Main.run(Main.java:12)
//
// Like stack collapsers, it counts running threads only. It omits threads that wait by their state,
// those in a call for events or connections, and the JVM's own.
type jstackLines struct {
	b      *Builder
	o      Options
	thread uint32 // 0: no stack has begun
	state  string // "": unknown
	own    bool   // of the JVM
	stack  []uint32
	others map[string]int // number of omitted stacks, by reason
	found  bool
	wrong  skipped
}

func newJStack(o Options) *jstackLines {
	return &jstackLines{b: o.builder(), o: o, others: map[string]int{}}
}

func (j *jstackLines) line(b []byte, n int) error {
	text := bytes.TrimSpace(b)
	switch {
	case len(text) == 0:
		j.done()
	case b[0] == '"':
		j.done()
		name, _, _ := bytes.Cut(b[1:], []byte(`"`))
		for _, own := range []string{
			"C1 CompilerThread", "C2 CompilerThread", "Signal Dispatcher", "Service Thread",
			"Attach Listener",
		} {
			j.own = j.own || bytes.Contains(name, []byte(own))
		}
		if !j.o.TID {
			name = []byte(PoolName(string(name)))
		}
		j.thread = j.b.Function(replaced(slices.Clone(name), ';', ':'), nil, Process)
	case bytes.HasPrefix(text, []byte("java.lang.Thread.State: ")):
		if j.state == "" {
			j.state = string(firstWord(text[len("java.lang.Thread.State: "):]))
		}
	case bytes.HasPrefix(text, []byte("at ")) && j.thread != 0:
		name, _, _ := bytes.Cut(text[3:], []byte("("))
		switch {
		case bytes.Contains(name, []byte("epollWait")),
			bytes.Contains(name, []byte("EPoll.wait")):
			j.state = "waiting for events"
		case bytes.HasSuffix(name, []byte("socketAccept")),
			bytes.HasSuffix(name, []byte("socketRead0")),
			bytes.HasSuffix(name, []byte("accept0")) && bytes.Contains(name, []byte("Socket")):
			j.state = "waiting for the network"
		}
		j.stack = append(j.stack, j.b.Function(replaced(slices.Clone(name), ';', ':'), nil, Code))
	case text[0] == '-', bytes.HasPrefix(b, []byte("Full thread dump")),
		bytes.HasPrefix(b, []byte("JNI global ref")), isDate(b), j.thread == 0:
	case bytes.HasPrefix(text, []byte("Locked ownable synchronizers")),
		bytes.HasPrefix(text, []byte("No compile task")),
		bytes.HasPrefix(text, []byte("Compiling:")):
	case bytes.HasPrefix(text, []byte("Carrying virtual thread")),
		bytes.HasPrefix(text, []byte("Threads class SMR info")),
		bytes.HasPrefix(text, []byte("_java_thread_list")):
	default:
		j.wrong.skip(n, "neither a thread, nor its state, nor a frame")
	}
	return nil
}

// isDate reports whether a line begins with a year, as dumps do.
func isDate(b []byte) bool { return len(b) > 4 && isDigits(b[:4]) && b[4] == '-' }

func (j *jstackLines) done() {
	switch {
	case j.thread == 0:
	case j.own:
		j.others["of the JVM"]++
	case j.state == "RUNNABLE":
		j.found = true
		j.stack = append(j.stack, j.thread)
		slices.Reverse(j.stack)
		j.b.Stack(j.stack, 1)
	case j.state != "":
		j.others[j.state]++
	}
	j.thread, j.state, j.own, j.stack = 0, "", false, j.stack[:0]
}

func (j *jstackLines) end(lines int) (*Tree, error) {
	j.done()
	t := j.b.Tree()
	if len(j.others) > 0 {
		var all []string
		for why, n := range j.others {
			all = append(all, fmt.Sprintf("%s (%d)", clean(shortened(strings.ToLower(why), 40)), n))
		}
		slices.Sort(all)
		if len(all) > 8 {
			all = append(all[:8], "and others")
		}
		t.note("threads that run alone; left out: " + strings.Join(all, ", "))
	}
	if !j.found && len(j.others) == 0 && j.wrong.lines == 0 {
		return nil, &ParseError{Line: 1, What: "no threads in it"}
	}
	return j.wrong.report(t, lines)
}
