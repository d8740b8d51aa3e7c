package process

import (
	"errors"
	"strings"

	"culprit/collect"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// notes adds the notes that limit what the rows prove.
func (r *processReading) notes(out *collect.Out) {
	if r.ended > 0 {
		out.Table("process.cpu").Loss("processes ended between two readings: what they ran "+
			"after the first is in process.short of the process that waited for them", r.ended)
	}
	if r.ioDenied {
		for _, id := range []measure.StatID{"process.io", "process.calls.bytes"} {
			out.Table(id).Note(kernel.UnreadNote("the I/O of some processes may not be read: "+
				"that of other users needs CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE))
		}
	}
	if r.hung {
		out.NoteAll("a process that hangs in execve(2) is missing or not up to date until that " +
			"ends: the kernel holds the lock of its files")
	}
	if r.noIO {
		for _, id := range []measure.StatID{"process.io", "process.calls.bytes"} {
			out.Table(id).Unmeasured("this kernel does not count what processes read and write " +
				"(built without CONFIG_TASK_IO_ACCOUNTING)")
		}
	}
	if r.noSwitches {
		for _, id := range []measure.StatID{"process.switches", "thread.switches"} {
			out.Table(id).Note("/proc/PID/status does not have the context switches of some " +
				"threads: they are unknown")
		}
	}
	r.putVisibility(out)
	r.delayNotes(out.Table("process.delay"))
	if r.taskstats == nil && !r.sched {
		for _, id := range []measure.StatID{"process.runwait", "thread.runwait"} {
			out.Table(id).Unmeasured("this kernel does not count how long a process waits for " +
				"a CPU (built without CONFIG_SCHED_INFO)")
		}
	}
}

func (r *processReading) delayNotes(t *collect.Table) {
	switch {
	case t == nil:
	case !r.delayAcct:
		t.Unmeasured("delay accounting is off; kernel.task_delayacct=1 turns it on for " +
			"processes that start after that")
	case r.taskstats == nil && r.noBlkio:
		t.Unmeasured("on this kernel /proc/PID/stat does not have the time that a process " +
			"waits for disks")
	case errors.Is(r.taskstatsErr, measure.ErrDenied):
		const known = "only the disk waits of processes with one thread are known, to 10 ms"
		t.Note(
			kernel.RefusedNote(
				"without CAP_NET_ADMIN "+known, known+": taskstats", unix.CAP_NET_ADMIN,
			),
		)
	case r.taskstats == nil:
		t.Note("this kernel's taskstats are not usable, so only the disk waits of processes " +
			"with one thread are known, to 10 ms")
	case r.lateDelays:
		t.Note("process 1 has never waited for anything: delay accounting was turned on after " +
			"it started, and processes as old as that show no delays")
	case r.kinds < commonDelays:
		t.Note(
			"this kernel does not measure waits of these reasons: " + strings.Join(
				r.reasons[r.kinds:commonDelays], " ",
			),
		)
	}
}

// commonDelays is the number of reasons of a delay that all kernels since 6.3 measure.
const commonDelays = 7
