package procfs

import (
	"bytes"
	"errors"

	"culprit/kernel"
)

// TickNanoseconds is the unit of the times in /proc/stat and /proc/PID/stat: USER_HZ is 100.
const TickNanoseconds = 1e9 / 100

// Columns of a cpu line in /proc/stat.
const (
	CPUUser = iota
	CPUNice
	CPUSystem
	CPUIdle
	CPUIOWait
	CPUIRQ
	CPUSoftIRQ
	CPUSteal
	CPUGuest
	CPUGuestNice
	CPUColumns
)

// CPUTicks is one cpu line: ticks since boot, in the order of the file. guest is within user, guest_nice within nice.
type CPUTicks [CPUColumns]uint64

// Stat is what /proc/stat says. Numbers that the text has not, or that are none (a negative number of processes), are left as they
// were, and their bit in has is 0.
type Stat struct {
	Has        StatLines
	BadCPU     bool     // a line of a CPU is no list of numbers, or too short
	Columns    int      // that all CPUs' lines have: kernels before 2.6.33 have fewer than cpuColumns
	All        CPUTicks // the sum over CPUs, also those that are off line now
	CPUs       []CPULine
	Interrupts uint64 // since boot, of all sorts
	Switches   uint64
	Forks      uint64
	Running    uint64
	Blocked    uint64
}

// StatLines is a set of lines of /proc/stat, one bit for each.
type StatLines uint8

// The lines of /proc/stat that are read. HasAll is the line "cpu", the sum over the CPUs.
const (
	HasSwitches StatLines = 1 << iota
	HasForks
	HasInterrupts
	HasRunning
	HasBlocked
	HasAll
)

// CPULine is the line of one CPU.
type CPULine struct {
	CPU int
	CPUTicks
}

var errNoStat = errors.New("read /proc/stat: no counters in it")

// parseStat reads /proc/stat into s, using s.cpus again. With modes false it passes over the CPUs. The intr line, the longest
// by far on large machines (a number for each of thousands of interrupts), is read to its first number only.
func (s *Stat) Parse(b []byte, modes bool) error {
	s.CPUs, s.Has, s.BadCPU, s.Columns = s.CPUs[:0], 0, false, CPUColumns
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
				s.BadCPU = !s.parseCPU(line) || s.BadCPU
			}
			s.take(line, "ctxt ", &s.Switches, HasSwitches)
		case 'i':
			s.take(line, "intr ", &s.Interrupts, HasInterrupts)
		case 'p':
			s.take(line, "processes ", &s.Forks, HasForks)
			s.take(line, "procs_running ", &s.Running, HasRunning)
			s.take(line, "procs_blocked ", &s.Blocked, HasBlocked)
		}
	}
	if s.Has == 0 && len(s.CPUs) == 0 {
		return errNoStat
	}
	return nil
}

// take sets to the number of a line that begins with name.
func (s *Stat) take(line []byte, name string, to *uint64, bit StatLines) {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return
	}
	c := kernel.Scan(line[len(name):])
	if v := c.Uint(); c.Err() == nil {
		*to, s.Has = v, s.Has|bit
	}
}

func (s *Stat) parseCPU(line []byte) bool {
	c := kernel.Scan(line)
	name := c.Word()
	var ticks CPUTicks
	n := 0
	for ; n < CPUColumns && c.More(); n++ {
		ticks[n] = c.Uint()
	}
	if c.Err() != nil || n <= CPUSoftIRQ || len(name) < 3 || string(name[:3]) != "cpu" {
		return false
	}
	s.Columns = min(s.Columns, n)
	if len(name) == 3 {
		s.All, s.Has = ticks, s.Has|HasAll
		return true
	}
	cpu, err := kernel.ParseUint(name[3:])
	if err != nil || cpu >= 1<<20 {
		return false
	}
	s.CPUs = append(s.CPUs, CPULine{int(cpu), ticks})
	return true
}
