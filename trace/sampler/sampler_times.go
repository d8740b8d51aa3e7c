package sampler

import (
	"bytes"
	"strconv"

	"culprit/kernel"
	"culprit/kernel/proc"
)

// cpuTimes reads what CPUs did, which explains missing samples.
//
// It comes from /proc/stat. To produce that file, the kernel adds up the counts of all interrupts
// over all CPUs, which is expensive on large machines. So it is read once per period of due.
type cpuTimes struct {
	path   string
	perSec float64 // units of the file in a second
	text   []byte
	last   map[string]cpuTime // at the previous reading; nil: there was none
}

// cpuTime is what a CPU did, in seconds; in a file, in its units.
type cpuTime struct {
	busy   float64 // programs, the kernel, interrupts
	idle   float64 // with iowait
	stolen float64 // its virtual machine did not run
}

func newCPUTimes() cpuTimes {
	return cpuTimes{path: kernel.Root{}.InProc("stat"), perSec: float64(kernel.TicksPerSecond())}
}

// look returns what each CPU did since the last call. Known is false if that cannot be read, and at
// the first call.
func (r *cpuTimes) look() (times map[string]cpuTime, known bool) {
	text, err := proc.ReadFile(r.path, r.text)
	r.text = text
	before := r.last
	if r.last = nil; err != nil {
		return nil, false
	}
	r.last = parseTimes(text)
	if before == nil {
		return nil, false
	}
	times = map[string]cpuTime{}
	for cpu, now := range r.last {
		if b, ok := before[cpu]; ok {
			// The counts may decrease a little (proc(5)).
			since := func(n, b float64) float64 { return max(n-b, 0) / r.perSec }
			times[cpu] = cpuTime{
				busy: since(now.busy, b.busy), idle: since(now.idle, b.idle),
				stolen: since(now.stolen, b.stolen),
			}
		}
	}
	return times, true
}

// parseTimes returns the times of each CPU in /proc/stat. The name is followed by user, nice,
// system, idle, iowait, irq, softirq and steal; guest time is part of user and nice.
func parseTimes(text []byte) map[string]cpuTime {
	out := map[string]cpuTime{}
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		if !ok {
			break // the lines of CPUs come first
		}
		words := bytes.Fields(rest)
		if len(words) < 9 || rest[0] == ' ' { // the line of all CPUs
			continue
		}
		var n [8]float64
		for i := range n {
			v, err := strconv.ParseUint(string(words[i+1]), 10, 64)
			if err != nil {
				ok = false
			}
			n[i] = float64(v)
		}
		if ok {
			out[string(words[0])] = cpuTime{
				busy: n[0] + n[1] + n[2] + n[5] + n[6], idle: n[3] + n[4], stolen: n[7],
			}
		}
	}
	return out
}
