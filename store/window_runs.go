package store

import (
	"math"
	"slices"

	"culprit/measure"
)

// runs is one row over ticks: from tick starts[i] on its value is values[i].
type runs struct {
	starts []uint16
	values []float64
}

// change is the value of a row from a tick on. The columns of thousands of rows exceed a
// processor's cache. So changes are appended to a log and applied to the columns many ticks at a
// time.
type change struct {
	value  float64
	before int32 // 1 + the row's previous change, 0 when that is in its column
	tick   uint16
}

const (
	maxLoggedRows = 4096    // a part with more rows has no log: scanning it would cost as much
	maxLogged     = 8 << 10 // changes
)

// push sets the value of a row from the current tick on, and returns an estimate of the bytes of
// memory that it took.
func (p *part) push(row uint32, t int32, v float64) (grown int) {
	if p.rows.n > maxLoggedRows {
		if len(p.log) > 0 {
			grown = p.applyLog()
		}
		return grown + p.cols[row].push(t, v)
	}
	if len(p.log) >= min(16*len(p.cols), maxLogged) {
		grown = p.applyLog()
	}
	for len(p.heads) <= int(row) {
		p.heads = append(p.heads, 0)
	}
	p.log = append(p.log, change{v, p.heads[row], uint16(t)})
	p.heads[row] = int32(len(p.log))
	return grown
}

// applyLog moves the changes to the columns.
func (p *part) applyLog() (grown int) {
	for row, head := range p.heads {
		if head > 0 {
			grown += p.cols[row].extend(p.log, head)
			p.heads[row] = 0
		}
	}
	p.log = p.log[:0]
	return grown
}

// extend appends the changes of a row, of which the newest is head.
func (c *runs) extend(log []change, head int32) (grown int) {
	n, some := len(c.values), 0
	for at := head; at > 0; at = log[at-1].before {
		some++
	}
	if cap(c.values) < n+some {
		size := n + some
		switch {
		case size <= 64:
			for _, s := range [...]int{64, 16, 4} {
				if s >= n+some {
					size = s
				}
			}
		// its size at the end of the window if it grows at the same rate
		case size*windowTicks/(int(log[head-1].tick)+1) < 150:
			size = max(160, size)
		default:
			size = max(304, 2*size*b2i(size > 304))
		}
		grown = c.grow(size)
	}
	c.values, c.starts = c.values[:n+some], c.starts[:n+some]
	for i := n + some; head > 0; {
		i--
		ch := &log[head-1]
		c.values[i], c.starts[i] = ch.value, ch.tick
		head = ch.before
	}
	return grown
}

// dense writes a row over the ticks [from, to) to out, which has that length.
func (p *part) dense(row, from, to int, out []float64) {
	if row < len(p.heads) {
		for at := p.heads[row]; at > 0 && to > from; {
			ch := &p.log[at-1]
			if start := max(int(ch.tick), from); start < to {
				fillWith(out[start-from:to-from], ch.value)
				to = start
			}
			at = ch.before
		}
	}
	p.cols[row].dense(from, to, out[:to-from])
}

// alive reports whether some tick in [from, to) has the row.
func (p *part) alive(row, from, to int) bool {
	if row < len(p.heads) {
		for at := p.heads[row]; at > 0; {
			ch := &p.log[at-1]
			if start := int(ch.tick); start < to {
				if !isAbsent(ch.value) {
					return true
				}
				if to = start; to <= from {
					return false
				}
			}
			at = ch.before
		}
	}
	return p.cols[row].alive(from, to)
}

// runsOf returns a row with all its changes.
func (p *part) runsOf(row int) *runs {
	c := &p.cols[row]
	if row >= len(p.heads) || p.heads[row] == 0 {
		return c
	}
	all := runs{slices.Clip(c.starts), slices.Clip(c.values)}
	all.extend(p.log, p.heads[row])
	return &all
}

// push appends the value of the current tick to the column if it differs from the previous value.
func (c *runs) push(t int32, v float64) int {
	if n := len(c.values); n > 0 && math.Float64bits(c.values[n-1]) == math.Float64bits(v) {
		return 0
	}
	grown := 0
	if len(c.values) == cap(c.values) {
		// Many rows are short-lived; rows that change each second fill a window of 300.
		size := 2 * cap(c.values)
		for _, s := range [...]int{304, 160, 64, 16, 4} {
			if s > cap(c.values) {
				size = s
			}
		}
		grown = c.grow(size)
	}
	c.values, c.starts = append(c.values, v), append(c.starts, uint16(t))
	return grown
}

// windowTicks is how many ticks of one second a window has.
const windowTicks = int(windowSpan / measure.Second)

// grow allocates space for size values and returns the bytes that it took.
func (c *runs) grow(size int) int {
	grown := (size - cap(c.values)) * 10
	values, starts := make([]float64, len(c.values), size), make([]uint16, len(c.values), size)
	copy(values, c.values)
	copy(starts, c.starts)
	c.values, c.starts = values, starts
	return grown
}

// dense writes the row over the ticks [from, to) to out, which has that length.
func (c *runs) dense(from, to int, out []float64) {
	at := to
	for i := len(c.starts) - 1; i >= 0 && at > from; i-- {
		if start := max(int(c.starts[i]), from); start < at {
			fillWith(out[start-from:at-from], c.values[i])
			at = start
		}
	}
	fillWith(out[:at-from], absent())
}

// alive reports whether some tick in [from, to) has the row.
func (c *runs) alive(from, to int) bool {
	i := len(c.starts)
	if i > 0 && int(c.starts[i-1]) >= to {
		i, _ = slices.BinarySearch(c.starts, uint16(to))
	}
	for i--; i >= 0; i-- {
		if !isAbsent(c.values[i]) {
			return true
		}
		if int(c.starts[i]) <= from {
			break
		}
	}
	return false
}
