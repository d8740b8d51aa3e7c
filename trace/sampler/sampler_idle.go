package sampler

import (
	"bytes"
	"strconv"

	"culprit/kernel"
	"culprit/kernel/proc"
)

// idleness is how long CPUs were idle: it explains which samples are missing for that.
//
// /proc/stat has it beside the counts of all interrupts, which the kernel adds up over all CPUs for
// each look: on large machines that is expensive. So it is looked at in the beginning, and as long
// as samples lack.
type idleness struct {
	path   string
	perSec float64 // units of the file in a second
	text   []byte
	last   map[string]uint64 // at the look before; nil: there was none
	looks  int               // so many more, unless a sample lacks
}

// idleLooks is for how many readings it is looked at after one in which samples lacked, and after
// the first.
const idleLooks = 10

func newIdleness() idleness {
	return idleness{
		path:   kernel.Root{}.InProc("stat"),
		perSec: float64(kernel.TicksPerSecond()),
		looks:  idleLooks,
	}
}

// look returns the seconds that each CPU was idle since the last look; nil where that is not known.
func (i *idleness) look() map[string]float64 {
	if i.looks <= 0 {
		i.last = nil
		return nil
	}
	i.looks--
	text, err := proc.ReadFile(i.path, i.text)
	i.text = text
	if err != nil {
		i.last = nil
		return nil
	}
	before, now := i.last, parseIdle(text)
	i.last = now
	if before == nil {
		return nil
	}
	out := map[string]float64{}
	for cpu, n := range now {
		// idle and waiting for disks may each go back a little (proc(5))
		if b, ok := before[cpu]; ok && n > b {
			out[cpu] = float64(n-b) / i.perSec
		}
	}
	return out
}

// parseIdle reads the idle time of each CPU from /proc/stat, waiting for disks included: user,
// nice, system, idle, iowait follow the name.
func parseIdle(text []byte) map[string]uint64 {
	out := map[string]uint64{}
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		if !ok {
			break // the CPUs stand first
		}
		words := bytes.Fields(rest)
		if len(words) < 6 || rest[0] == ' ' { // the line of all CPUs
			continue
		}
		idle, err := strconv.ParseUint(string(words[4]), 10, 64)
		wait, err2 := strconv.ParseUint(string(words[5]), 10, 64)
		if err == nil && err2 == nil {
			out[string(words[0])] = idle + wait
		}
	}
	return out
}
