package collect

import (
	"math"

	"culprit/measure"
)

// Counters keeps the counters of the previous reading by object: a device, a CPU, a process. The
// key must never change while the object exists: an interface's index, not its name. Then a rename
// loses nothing, and a new object with an old name is not compared with the old one.
type Counters[K comparable] struct {
	Width32 bool // the counters wrap at 2^32 (the kernel's unsigned int, or a 32-bit long)

	rows  map[K]*counted
	delta []float64
	round uint32
}

type counted struct {
	last    []uint64
	round   uint32
	reading int // Out.number of the last reading that had the object
}

// Diff returns how much each counter of the object has grown since the previous reading. The next
// call reuses the slice.
//
// NaN means that a counter went backwards, so it was reset. With Width32 a wrap is not a reset.
//
// ok is false for an object that the previous reading did not have, as there is nothing to compare
// with. Two kinds of object count from zero instead: one that was born since that reading, and
// every object when out counts from boot.
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

// Sweep removes the objects that have not been seen since the previous Sweep. Call it at the end of
// each reading.
func (c *Counters[K]) Sweep() {
	for k, r := range c.rows {
		if r.round != c.round {
			delete(c.rows, k)
		}
	}
	c.round++
}
