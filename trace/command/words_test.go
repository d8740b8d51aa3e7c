package command

import (
	"strings"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// A mistake that users of other tracers make names what to write instead, and all mistakes of a
// program are reported at once.
func TestForeignWords(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	tracetest.Here(t)
	for _, c := range []struct{ text, want string }{
		{`kprobe:vfs_read { @[comm] = count(); }`, "fbt::vfs_read:entry|comm is execname"},
		{`tracepoint:syscalls:sys_enter_openat { }`, "syscall::openat:entry"},
		{`tracepoint:sched:sched_switch { @[args->next_comm] = count(); }`,
			"tracepoint:sched::sched_switch"},
		{`uprobe:/bin/bash:readline { }`, "uprobe:/bin/bash:readline:"},
		{`profile:hz:99 { @[kstack] = count(); }`, "profile-99|kstack is stack()"},
		{`profile-99 { @[kstack()] = count(); }`, "kstack is stack()"},
		{`interval:s:1 { print(@); }`, "tick-1s|printa()"},
		{`BEGIN { @ = hist(arg2); }`, "hist is quantize(X)"},
		{`BEGIN { trace(str(arg1)); trace(nsecs); }`,
			"str is copyinstr(ADDRESS)|nsecs is timestamp"},
		{`syscall::read:return { trace(retval); }`, "retval is arg1"},
		{`BEGIN { @start[tid] = nsecs; }`, "self->start = ..."},
		{`BEGIN /pid = 1/ { }`, "== compares"},
		{`BEGIN /execname == bash/ { }`, `double quotes: "bash"`},
		{`BEGIN /execname == 'bash'/ { }`, `double quotes: "bash"`},
		{`sched:sched_switch { }`, "sdt:sched::sched_switch"},
		{`sdt:sched:sched_switch { }`, "sdt:sched::sched_switch"},
		{`syscall:read:entry { }`, "syscall::read:entry"},
		{`read { }`, "syscall::read:entry"},
		{`syscall::pread:entry { }`, "syscall::pread64:entry"},
		{`syscall::exece:entry { }`, "syscall::execve:entry"},
		{`BEGIN { trace(curthread->uid); }`, "cred->uid.val"},
		{`BEGIN { trace(strcmp(execname, "x")); }`, "A == B"},
		{`BEGIN { trace(pid()); }`, "pid is a variable"},
		{`BEGIN { trace($target); }`, "-p PID or -c COMMAND"},
	} {
		t.Run(c.text, func(t *testing.T) {
			r := Request{Parts: []Part{{'n', c.text}}, CompileOnly: true}
			_, _, _, err := session(t.Context(), t, r)
			holdsAll(t, err, c.want)
		})
	}
	for _, c := range []struct{ text, want string }{
		{`fbt::vfs_read:entry { @[execname] = count(); }`, "kprobe:vfs_read"},
		{`BEGIN { @[execname] = count(); @t = timestamp; }`, "execname is comm|timestamp is nsecs"},
		{`BEGIN { @x = quantize(1); }`, "quantize is hist(X)"},
		{`BEGIN { print(copyinstr(1)); }`, "copyinstr is str(ADDRESS)"},
		{`tick-1s { print(1); }`, "interval:s:1"},
		{`syscall::read:entry { print(1); }`, "tracepoint:syscalls:sys_enter_read"},
		{`sched:sched_switch { print(1); }`, "tracepoint:sched:sched_switch"},
		{`io:::start { print(1); }`, "tracepoint:block:block_rq_issue"},
	} {
		t.Run("bpftrace "+c.text, func(t *testing.T) {
			_, _, err := runBpftrace(t, BpftraceRequest{Program: c.text, DryRun: true})
			holdsAll(t, err, c.want)
		})
	}
}

// holdsAll fails a test unless an error has all parts of a text, which | separates.
func holdsAll(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", want)
	}
	text := err.Error()
	if m, ok := err.(interface{ Marked() string }); ok {
		text = m.Marked()
	}
	for part := range strings.SplitSeq(want, "|") {
		if !strings.Contains(text, part) {
			t.Errorf("%s\nlacks %s", text, part)
		}
	}
}
