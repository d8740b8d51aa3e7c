package network

import (
	"errors"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Softnet reads /proc/net/softnet_stat: what each CPU did with received packets. The file is the
// same in every network namespace.
type Softnet struct{}

// Stats returns the columns that are in use.
func (Softnet) Stats() []measure.Stat {
	cpu := []measure.Field{{Name: "cpu", Type: measure.Number, Help: "CPU number"}}
	return []measure.Stat{
		{
			ID:     "softnet.packets",
			Kind:   measure.Delta,
			Unit:   measure.Packets,
			Help:   "packets received (/proc/net/softnet_stat column 1)",
			Fields: cpu,
		},
		{
			ID:   "softnet.drops",
			Kind: measure.Delta,
			Unit: measure.Packets,
			Help: "packets dropped because the CPU's backlog was full, " +
				"net.core.netdev_max_backlog (column 2)",
			Fields: cpu,
		},
		{
			ID:   "softnet.squeezes",
			Kind: measure.Delta,
			Unit: measure.Events,
			Help: "times that receiving stopped with work left, because its budget or time " +
				"was used up (column 3)",
			Fields: cpu,
		},
		{ID: "softnet.rps", Kind: measure.Delta, Unit: measure.Events, Help: "times that " +
			"another CPU woke this one to process packets, RPS (column 10)", Fields: cpu},
		{
			ID:   "softnet.flowlimit",
			Kind: measure.Delta,
			Unit: measure.Packets,
			Help: "packets dropped because their flow had too large a part of a filling " +
				"backlog (column 11)",
			Fields: cpu,
		},
		{
			ID:     "softnet.backlog",
			Kind:   measure.Level,
			Unit:   measure.Packets,
			Help:   "packets waiting in the CPU's backlog (column 12, since 5.10)",
			Fields: cpu,
		},
	}
}

// Open opens /proc/net/softnet_stat. An error means that nothing can be measured. The caller closes
// the Reading.
func (Softnet) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	f, err := proc.OpenProc(env.Root, "net/softnet_stat")
	if err != nil {
		return nil, err
	}
	return &softnetReading{file: f, root: env.Root, last: collect.Counters[int]{Width32: true}}, nil
}

type softnetReading struct {
	file    *proc.File
	root    kernel.Root
	last    collect.Counters[int]
	numbers collect.NumberLabels
	online  []int // only used if the lines do not have the CPU
	buf     []byte
}

// softnetLine is one line: the counters of one CPU since boot, each of 32 bits.
type softnetLine struct {
	packets, drops, squeezes, rps, flowlimit uint64
	backlog                                  uint64
	cpu                                      int // -1: not in the line
	columns                                  int
}

// parseSoftnetLine parses one line of hexadecimal numbers. The columns (net/core/net-procfs.c):
//
//	1 packets  2 drops  3 squeezes  4-9 unused  10 rps (Linux 2.6.37)  11 flow limit (3.11)
//	12 backlog and 13 cpu (5.10)  14 and 15 the two halves of the backlog (6.4)
func parseSoftnetLine(line []byte) (l softnetLine, ok bool) {
	c := proc.Scan(line)
	l.cpu = -1
	for c.More() {
		v := c.Hex()
		if v > 1<<32-1 {
			return l, false
		}
		l.columns++
		switch l.columns {
		case 1:
			l.packets = v
		case 2:
			l.drops = v
		case 3:
			l.squeezes = v
		case 10:
			l.rps = v
		case 11:
			l.flowlimit = v
		case 12:
			l.backlog = v
		case 13:
			if v >= 1<<20 {
				return l, false
			}
			l.cpu = int(v)
		}
	}
	return l, c.Err() == nil && l.columns > 0
}

// Columns of /proc/net/softnet_stat, from 1: packets, drops, squeezes, rps, flow limit; and the
// backlog.
var softnetColumns = [...]int{1, 2, 3, 10, 11}

const softnetBacklog = 12

func (r *softnetReading) Read(out *collect.Out) error {
	b, err := r.file.Read()
	if err != nil {
		return err
	}
	packets, drops := out.Table("softnet.packets"), out.Table("softnet.drops")
	squeezes, rps := out.Table("softnet.squeezes"), out.Table("softnet.rps")
	flowlimit, backlog := out.Table("softnet.flowlimit"), out.Table("softnet.backlog")
	r.online = r.online[:0]
	lines := 0
	for i := 0; len(b) > 0; i++ {
		var text []byte
		text, b = procfs.CutLine(b)
		l, ok := parseSoftnetLine(text)
		if !ok {
			continue
		}
		lines++
		if l.cpu < 0 { // before Linux 5.10: one line for each online CPU, in their order
			if l.cpu = r.nth(i); l.cpu < 0 {
				packets.Note("/proc/net/softnet_stat does not have the CPU of a line, and " +
					"/sys/devices/system/cpu/online is unreadable")
				continue
			}
		}
		cpu := r.numbers.Of(out, l.cpu)
		if l.columns >= softnetBacklog {
			backlog.Put(float64(l.backlog), cpu)
		} else {
			backlog.Lacks("this kernel does not show the length of the backlog (5.10 and later do)")
		}
		d, ok := r.last.Diff(out, l.cpu, false, l.packets, l.drops, l.squeezes, l.rps, l.flowlimit)
		if !ok {
			continue
		}
		for i, t := range [...]*collect.Table{packets, drops, squeezes, rps, flowlimit} {
			if l.columns >= softnetColumns[i] {
				t.Put(d[i], cpu)
			} else {
				t.Lacks("/proc/net/softnet_stat has no column of it on this kernel")
			}
		}
	}
	r.last.Sweep()
	if lines == 0 {
		return errNoSoftnet
	}
	return nil
}

var errNoSoftnet = errors.New("read /proc/net/softnet_stat: no line of a CPU in it")

// nth returns the nth online CPU, -1 if there is none.
func (r *softnetReading) nth(n int) int {
	if len(r.online) == 0 {
		var err error
		if r.buf, err = proc.ReadSys(r.root, "devices/system/cpu/online", r.buf); err != nil {
			return -1
		}
		r.online, _ = procfs.ParseCPUList(r.online, r.buf)
	}
	if n >= len(r.online) {
		return -1
	}
	return r.online[n]
}

func (r *softnetReading) Close() { r.file.Close() }
