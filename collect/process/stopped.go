package process

import (
	"bytes"
	"strconv"

	"culprit/collect"
)

// mostTracers is how many stopped processes one reading looks for the tracer of.
const mostTracers = 64

// putStopped puts the processes whose first thread is stopped at the moment of the reading: by a
// signal, or by a tracer, as strace and gdb.
func (r *processReading) putStopped(out *collect.Out) {
	t := out.Table("process.stopped")
	if t == nil {
		return
	}
	left := mostTracers
	for _, p := range r.procs {
		if p.dead || p.stat.state != 'T' && p.stat.state != 't' {
			continue
		}
		tracer := int32(0)
		if left > 0 {
			left--
			tracer = r.tracerOf(p.pid)
		}
		number, word := out.Number(int64(tracer)), out.Label("")
		if by := r.find(tracer); by != nil {
			number, word = by.name.of(out, by.pid, by.comm)
		}
		pid, name := p.name.of(out, p.pid, p.comm)
		t.Put(1, pid, name, out.Label(stoppedBy(p.stat.state)), number, word)
	}
}

// stoppedBy returns what stops a process in a state of /proc/PID/stat.
func stoppedBy(state byte) string {
	if state == 't' {
		return "tracer"
	}
	return "signal"
}

// tracerOf returns the process that traces another one; 0: none, or it cannot be read.
func (r *processReading) tracerOf(pid int32) int32 {
	b, err := r.readOnce(pid, "status")
	if err != nil {
		return 0
	}
	_, after, ok := bytes.Cut(b, []byte("\nTracerPid:\t"))
	if !ok {
		return 0
	}
	digits, _, _ := bytes.Cut(after, []byte("\n"))
	n, err := strconv.ParseInt(string(digits), 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}
