package sampler

import (
	"bytes"
	"strconv"

	"culprit/kernel"
	"culprit/kernel/proc"
)

// idleness reads how long CPUs were idle. This explains a part of the missing samples.
//
// It comes from /proc/stat. To produce that file, the kernel adds up the counts of all interrupts
// over all CPUs, which is expensive on large machines. So it is read only at first and while
// samples lack.
type idleness struct {
	path   string
	perSec float64 // units of the file in a second
	text   []byte
	last   map[string]uint64 // at the previous reading; nil: there was none
	looks  int               // how many more readings follow, unless a sample lacks
}

// idleLooks is how many readings follow the first one, and one in which samples lacked.
const idleLooks = 10

func newIdleness() idleness {
	return idleness{
		path:   kernel.Root{}.InProc("stat"),
		perSec: float64(kernel.TicksPerSecond()),
		looks:  idleLooks,
	}
}

// look returns the seconds that each CPU was idle since the last call, or nil when that is not
// known.
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
		// The counts may decrease a little (proc(5)).
		if b, ok := before[cpu]; ok && n > b {
			out[cpu] = float64(n-b) / i.perSec
		}
	}
	return out
}

// parseIdle returns the idle time of each CPU in /proc/stat, including iowait. The name is followed
// by user, nice, system, idle and iowait.
func parseIdle(text []byte) map[string]uint64 {
	out := map[string]uint64{}
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte("cpu"))
		if !ok {
			break // the lines of CPUs come first
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
