package collect

import (
	"math"

	"culprit/measure"
)

// Counters holds the counters of the reading before, by object: a device, a CPU, a process. Objects are told apart by what
// never changes while they live (an interface's index, not its name), so that a rename loses nothing and a new
// object of an old name starts anew.
type Counters[K comparable] struct {
	Width32 bool // the counters wrap at 2^32 (kernel's unsigned int or 32-bit long)

	rows  map[K]*counted
	delta []float64
	round uint32
}

type counted struct {
	last    []uint64
	round   uint32
	reading int // Out.number when last was read
}

// Diff gives how much each counter of the object has grown since the reading before; the slice is reused by the next call. A counter that
// went backwards was reset, and gives NaN (a wrap of a 32-bit counter is counted through). An object not seen at the reading before gives ok false, as there
// is nothing to compare with - unless it was born after the reading before, or we count from boot: then it began at zero.
func (c *Counters[K]) Diff(o *Out, key K, born bool, now ...uint64) (delta []float64, ok bool) {
	if c.rows == nil {
		c.rows = map[K]*counted{}
	}
	row := c.rows[key]
	fresh := row == nil || len(row.last) != len(now) || row.reading < o.number-1
	if fresh {
		row = &counted{last: make([]uint64, len(now))}
		c.rows[key] = row
	}
	row.round, row.reading = c.round, o.number
	ok = !fresh || born && !o.First || o.First && o.SinceBoot
	c.delta = c.delta[:0]
	for i, v := range now {
		d := float64(v - row.last[i])
		if v < row.last[i] {
			switch {
			case c.Width32 && row.last[i] <= math.MaxUint32 && row.last[i] > 3<<30 && v < 1<<30:
				d = float64(v + 1<<32 - row.last[i])
			default:
				d = measure.NaN
				o.reset = o.reset || ok
			}
		}
		c.delta = append(c.delta, d)
		row.last[i] = v
	}
	return c.delta, ok
}

// Sweep forgets the objects that have not been seen since the Sweep before; call it at the end of each reading.
func (c *Counters[K]) Sweep() {
	for k, r := range c.rows {
		if r.round != c.round {
			delete(c.rows, k)
		}
	}
	c.round++
}
