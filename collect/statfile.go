package collect

import (
	"bytes"
	"culprit/kernel"
	"errors"
)

// tickNanoseconds is the unit of the times in /proc/stat and /proc/PID/stat: USER_HZ is 100.
const tickNanoseconds = 1e9 / 100

// Columns of a cpu line in /proc/stat.
const (
	colUser = iota
	colNice
	colSystem
	colIdle
	colIowait
	colIrq
	colSoftirq
	colSteal
	colGuest
	colGuestNice
	cpuColumns
)

// cpuTicks is one cpu line: ticks since boot, in the order of the file. guest is within user, guest_nice within nice.
type cpuTicks [cpuColumns]uint64

// statText is what /proc/stat says. Numbers that the text has not, or that are none (a negative number of processes), are left as they
// were, and their bit in has is 0.
type statText struct {
	has        statBits
	badCPU     bool     // a line of a CPU is no list of numbers, or too short
	columns    int      // that all CPUs' lines have: kernels before 2.6.33 have fewer than cpuColumns
	all        cpuTicks // the sum over CPUs, also those that are off line now
	cpus       []cpuLine
	interrupts uint64 // since boot, of all sorts
	switches   uint64
	forks      uint64
	running    uint64
	blocked    uint64
}

type statBits uint8

const (
	hasSwitches statBits = 1 << iota
	hasForks
	hasInterrupts
	hasRunning
	hasBlocked
	hasAll
)

type cpuLine struct {
	cpu int
	cpuTicks
}

var errNoStat = errors.New("read /proc/stat: no counters in it")

// parseStat reads /proc/stat into s, using s.cpus again. With modes false it passes over the CPUs. The intr line, the longest
// by far on large machines (a number for each of thousands of interrupts), is read to its first number only.
func (s *statText) parse(b []byte, modes bool) error {
	s.cpus, s.has, s.badCPU, s.columns = s.cpus[:0], 0, false, cpuColumns
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			end = len(b)
		}
		line := b[:end]
		b = b[min(end+1, len(b)):]
		if len(line) < 4 {
			continue
		}
		switch line[0] {
		case 'c':
			if line[1] == 'p' && modes {
				s.badCPU = !s.parseCPU(line) || s.badCPU
			}
			s.take(line, "ctxt ", &s.switches, hasSwitches)
		case 'i':
			s.take(line, "intr ", &s.interrupts, hasInterrupts)
		case 'p':
			s.take(line, "processes ", &s.forks, hasForks)
			s.take(line, "procs_running ", &s.running, hasRunning)
			s.take(line, "procs_blocked ", &s.blocked, hasBlocked)
		}
	}
	if s.has == 0 && len(s.cpus) == 0 {
		return errNoStat
	}
	return nil
}

// take sets to the number of a line that begins with name.
func (s *statText) take(line []byte, name string, to *uint64, bit statBits) {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return
	}
	c := kernel.Scan(line[len(name):])
	if v := c.Uint(); c.Err() == nil {
		*to, s.has = v, s.has|bit
	}
}

func (s *statText) parseCPU(line []byte) bool {
	c := kernel.Scan(line)
	name := c.Word()
	var ticks cpuTicks
	n := 0
	for ; n < cpuColumns && c.More(); n++ {
		ticks[n] = c.Uint()
	}
	if c.Err() != nil || n <= colSoftirq || len(name) < 3 || string(name[:3]) != "cpu" {
		return false
	}
	s.columns = min(s.columns, n)
	if len(name) == 3 {
		s.all, s.has = ticks, s.has|hasAll
		return true
	}
	cpu, err := kernel.ParseUint(name[3:])
	if err != nil || cpu >= 1<<20 {
		return false
	}
	s.cpus = append(s.cpus, cpuLine{int(cpu), ticks})
	return true
}
