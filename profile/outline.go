package profile

import (
	"bytes"
	"slices"
)

// Some tools write a tree of calls, a call per line, each below its caller and indented more.

// An outline is the calls from the root to the newest line.
type outline struct {
	b    *Builder
	path []outlined
}

type outlined struct {
	call   Call
	amount float64 // of the line
	below  float64 // the part of the amount that the lines below have
}

// enter adds a call below depth callers. It reports false when callers are missing.
func (o *outline) enter(depth int, function uint32, amount float64) bool {
	if depth > len(o.path) || depth > MaxDepth {
		return false
	}
	o.path = o.path[:depth]
	above := Call{}
	if depth > 0 {
		above = o.path[depth-1].call
		o.path[depth-1].below += amount
	}
	o.path = append(o.path, outlined{call: o.b.Child(above, function), amount: amount})
	return true
}

// moduled returns the function module`name.
func (o *outline) moduled(module, name []byte) uint32 {
	text := name
	if len(module) > 0 {
		text = append(append(slices.Clone(module), '`'), name...)
	}
	return o.b.Function(replaced(slices.Clone(text), ';', ':'), module, Code)
}

// sampleLines reads the output of macOS's sample. The number of a line includes those below it.
//
//	Call graph:
//	    825 Thread_15758523   DispatchQueue_1: com.apple.main-thread  (serial)
//	    + 825 start  (in libdyld.dylib) + 1  [0x7fff737cf3d5]
//	    +   800 main  (in rg) + 41  [0x10384b549]
//
// Like stack collapsers, it omits stacks that end in a system call that waits.
type sampleLines struct {
	outline
	begun, ended bool
	waits        bool // the newest line is a system call that waits
	waiting      float64
	wrong        skipped
}

// waitCalls are the system calls of macOS in which a thread waits.
//
// table: the list of FlameGraph's and inferno's collapsers
var waitCalls = []string{"__psynch_cvwait", "__select", "__semwait_signal", "__ulock_wait",
	"__wait4", "__workq_kernreturn", "kevent", "mach_msg_trap", "read", "semaphore_wait_trap"}

func newSample(o Options) *sampleLines { return &sampleLines{outline: outline{b: o.builder()}} }

func (s *sampleLines) line(b []byte, n int) error {
	switch {
	case s.ended:
		return nil
	case !s.begun:
		s.begun = bytes.HasPrefix(b, []byte("Call graph:"))
		return nil
	case len(bytes.TrimSpace(b)) == 0:
		return nil
	case bytes.HasPrefix(b, []byte("Total number in stack")):
		s.leave(0)
		s.ended = true
		return nil
	}
	rest, ok := bytes.CutPrefix(b, []byte("    "))
	indent := len(rest) - len(bytes.TrimLeft(rest, " +|:!"))
	if !ok || indent%2 != 0 || indent == len(rest) {
		s.wrong.skip(n,
			"no line of a call graph: four blanks, two signs for each caller, samples, function")
		return nil
	}
	count, rest, _ := bytes.Cut(rest[indent:], []byte(" "))
	if !isDigits(count) {
		s.wrong.skip(n, "no number of samples before the function")
		return nil
	}
	var module []byte
	if i := bytes.LastIndex(rest, []byte("(in ")); i >= 0 {
		module, _, _ = bytes.Cut(rest[i+4:], []byte(")"))
		module = bytes.TrimSuffix(module, []byte(".dylib"))
		rest = rest[:i]
	}
	name := withoutRust(bytes.TrimSpace(withoutArguments(bytes.TrimSpace(rest))))
	s.leave(indent / 2)
	if !s.enter(indent/2, s.moduled(module, name), parseCount(count)) {
		s.wrong.skip(n, "its callers are missing")
		return nil
	}
	s.waits = slices.ContainsFunc(waitCalls,
		func(w string) bool { return bytes.HasSuffix(name, []byte(w)) })
	return nil
}

// leave ends the calls from a depth on and adds their own amounts.
func (s *sampleLines) leave(depth int) {
	for len(s.path) > depth {
		last := s.path[len(s.path)-1]
		s.path = s.path[:len(s.path)-1]
		if s.waits {
			s.waiting += last.amount - last.below
		} else {
			s.b.Add(last.call.Node, last.amount-last.below)
		}
		s.waits = false
	}
}

func (s *sampleLines) end(lines int) (*Tree, error) {
	s.leave(0)
	t := s.b.Tree()
	switch {
	case !s.begun:
		return nil, &ParseError{Line: max(1, lines), What: "no call graph in it"}
	case !s.ended:
		t.note("the call graph has no end: the input is cut off")
	}
	if s.waiting > 0 {
		t.note(plural(int(s.waiting), "sample", "samples") + " of threads that waited left out")
	}
	return s.wrong.report(t, lines)
}
