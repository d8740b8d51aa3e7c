package process

import (
	"bytes"
	"cmp"
	"slices"

	"culprit/collect"
)

// placementReading finds out where processes wait for a CPU.
type placementReading struct {
	sample []*process // longest wait first
}

const (
	// waitsLong is the share of the interval that a process waited, in which it is looked at.
	waitsLong = 0.05
	// mostPlacements is how many processes have a row, at one file each.
	mostPlacements = 64
	// mostAllowed is the longest list of CPUs that is shown, in bytes.
	mostAllowed = 512
)

// putPlacement puts the CPU of each process that waited for one, and the CPUs that it may use:
// those of its thread that waited longest.
func (r *processReading) putPlacement(out *collect.Out) {
	t := out.Table("process.placement")
	if t == nil || out.First {
		return
	}
	l := &r.placement
	l.sample = l.sample[:0]
	least := waitsLong * float64(out.Over().Span())
	for _, p := range r.procs {
		if p.ran && !p.dead && p.delta.wait >= least {
			l.sample = append(l.sample, p)
		}
	}
	slices.SortStableFunc(l.sample, func(a, b *process) int {
		return cmp.Compare(b.delta.wait, a.delta.wait)
	})
	for _, p := range l.sample[:min(len(l.sample), mostPlacements)] {
		cpu, file := p.stat.cpu, "status"
		if p.split {
			th := longestWait(p.threads)
			if th == nil {
				continue
			}
			cpu, file = th.stat.cpu, th.base+file
		}
		allowed := ""
		if !p.stat.kernel { // a kernel thread of one CPU is there on purpose
			if b, err := r.readOnce(p.pid, file); err == nil {
				allowed = string(parseAllowed(b))
			}
		}
		pid, name := p.name.of(out, p.pid, p.comm)
		t.Put(1, pid, name, out.Number(int64(cpu)), out.Label(allowed))
	}
	clear(l.sample)
}

// longestWait returns the thread that waited longest for a CPU; nil when none did.
func longestWait(threads []*thread) (most *thread) {
	for _, t := range threads {
		if t.ran && !t.gone && t.delta.wait > 0 && (most == nil || t.delta.wait > most.delta.wait) {
			most = t
		}
	}
	return most
}

// parseAllowed returns the CPUs that a thread may use, as in /proc/PID/status: "0-3,8". It is part
// of b, and nil for anything else.
func parseAllowed(b []byte) []byte {
	_, after, ok := bytes.Cut(b, []byte("\nCpus_allowed_list:"))
	if !ok {
		return nil
	}
	line, _, _ := bytes.Cut(after, []byte("\n"))
	line = bytes.TrimSpace(line)
	const digits = "0123456789,-"
	if len(line) > mostAllowed || len(bytes.Trim(line, digits)) > 0 {
		return nil
	}
	return line
}
