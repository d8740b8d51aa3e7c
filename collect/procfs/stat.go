package procfs

import (
	"bytes"
	"errors"

	"culprit/kernel/proc"
)

// TickNanoseconds is the unit of the times in /proc/stat and /proc/PID/stat: USER_HZ is 100.
const TickNanoseconds = 1e9 / 100

// Columns of the cpu lines in /proc/stat.
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

// CPUTicks is one cpu line: ticks since boot in the order of the file. CPUUser includes CPUGuest,
// CPUNice includes CPUGuestNice.
type CPUTicks [CPUColumns]uint64

// Stat is the content of /proc/stat. Parse leaves a number unchanged, and its bit in Has 0, if the
// line is missing or is not a number of at least 0.
type Stat struct {
	Has    StatLines
	BadCPU bool // a cpu line is too short or has a word that is not a number
	// columns that all cpu lines have: fewer than CPUColumns before Linux 2.6.33
	Columns    int
	All        CPUTicks // sum over the CPUs, including those that are offline now
	CPUs       []CPULine
	Interrupts uint64 // since boot, of all kinds
	Switches   uint64
	Forks      uint64
	Running    uint64
	Blocked    uint64
	Boot       uint64 // time of the boot, in seconds since the Unix epoch
}

// StatLines is a set of lines of /proc/stat, one bit for each.
type StatLines uint8

// The bits of StatLines. HasAll is the line "cpu", the sum over the CPUs.
const (
	HasSwitches StatLines = 1 << iota
	HasForks
	HasInterrupts
	HasRunning
	HasBlocked
	HasAll
	HasBoot
)

// CPULine is the line of one CPU.
type CPULine struct {
	CPU int
	CPUTicks
}

var errNoStat = errors.New("read /proc/stat: no counters in it")

// Parse parses /proc/stat into s and reuses s.CPUs. Without modes it skips the cpu lines. Of the
// intr line it reads only the first number: it is by far the longest line on large machines, with a
// number for each of thousands of interrupts.
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
		case 'b':
			s.take(line, "btime ", &s.Boot, HasBoot)
		case 'i':
			s.take(line, "intr ", &s.Interrupts, HasInterrupts)
		case 'p':
			s.take(line, "processes ", &s.Forks, HasForks)
			s.take(line, "procs_running ", &s.Running, HasRunning)
			s.take(line, "procs_blocked ", &s.Blocked, HasBlocked)
		}
	}
	if s.Has&^HasBoot == 0 && len(s.CPUs) == 0 {
		return errNoStat
	}
	return nil
}

// take sets *to and the bit if the line begins with name and a number.
func (s *Stat) take(line []byte, name string, to *uint64, bit StatLines) {
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return
	}
	c := proc.Scan(line[len(name):])
	if v := c.Uint(); c.Err() == nil {
		*to, s.Has = v, s.Has|bit
	}
}

func (s *Stat) parseCPU(line []byte) bool {
	c := proc.Scan(line)
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
	cpu, err := proc.ParseUint(name[3:])
	if err != nil || cpu >= 1<<20 {
		return false
	}
	s.CPUs = append(s.CPUs, CPULine{int(cpu), ticks})
	return true
}
