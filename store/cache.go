package store

import (
	"math"
	"sync"
	"time"

	"culprit/measure"
)

// cache keeps segments of ticks unpacked, as runs. What was is told again tick by tick: each question is about one second of a segment of
// hundreds, and would unpack all of it. A segment is kept when it was asked for cacheFrom times, and dropped when nobody asked for
// it within cacheIdle. Its lock is taken last.
type cache struct {
	mu      sync.Mutex // guards all below
	kept    map[uint64]*unpacked
	asked   map[uint64]int // of segments that are not kept: how often, since age was last called
	bytes   int
	queries uint64      // counts the questions
	agedAt  uint64      // turn at which age was last called
	next    *time.Timer // calls age; nil: nothing is there that could age
}

// unpacked is a segment that is unpacked. Only turn changes.
type unpacked struct {
	block  block
	bytes  int
	usedAt uint64 // of the newest question
}

const (
	cacheBytes = 8 << 20          // in all
	cacheOne   = 3 << 20          // of one segment
	cacheIdle  = 15 * time.Second // after twice this at the latest, what nobody asks for is dropped
	// cacheFrom is how often a segment is asked for until it is kept. A diagnosis just after a window has become segments asks for
	// each once or twice, and never again.
	cacheAfter = 3
)

// read opens a segment to be asked about a time.
func (c *cache) read(codec *codec, e entry, get getter, d *set, over measure.Interval, last *block) (*block, error) {
	asked := min(e.over.End, over.End).Sub(max(e.over.Start, over.Start))
	if e.resolution != inTicks || d.desc.Stat.Kind == measure.Dists || asked > e.over.Span()/8 || e.ticks > math.MaxUint16 {
		return e.read(codec, get, d, last)
	}
	c.mu.Lock()
	c.queries++
	u := c.kept[e.id]
	often := 0
	if u != nil {
		u.usedAt = c.queries
	} else {
		often = c.countQuery(e.id)
	}
	c.mu.Unlock()
	if u != nil {
		b := u.block
		return &b, nil
	}
	b, err := e.read(codec, get, d, last)
	if err != nil || often < cacheAfter {
		return b, err
	}
	if u = unpack(b); u != nil {
		c.put(e.id, u)
		if b.release != nil {
			b.release()
		}
		b := u.block
		return &b, nil
	}
	return b, nil
}

// ask counts a question about a segment that is not kept, and gives how many there were. mu is held.
func (c *cache) countQuery(id uint64) int {
	if c.asked == nil {
		c.asked = map[uint64]int{}
	}
	c.asked[id]++
	c.scheduleEviction()
	return c.asked[id]
}

// wait has age called after a while. mu is held.
func (c *cache) scheduleEviction() {
	if c.next == nil {
		c.next = time.AfterFunc(cacheIdle, c.evictIdle)
	}
}

// unpack gives the runs of all rows of a segment; nil when they are too many, or damaged.
func unpack(b *block) *unpacked {
	ticks := len(b.ticks)
	dense := make([]float64, ticks)
	rows := make([]runs, b.rows)
	bytes := 64*ticks + 48*b.rows + 4*len(b.keys) + 24*len(b.stacks)
	for _, t := range b.texts {
		bytes += 16 + len(t)
	}
	var all runs
	for i := range rows {
		if b.column(i, 0, ticks, dense) != nil {
			return nil
		}
		first := len(all.starts)
		for t, v := range dense {
			if t == 0 || math.Float64bits(v) != math.Float64bits(dense[t-1]) {
				all.starts, all.values = append(all.starts, uint16(t)), append(all.values, v)
			}
		}
		n := len(all.starts)
		rows[i] = runs{all.starts[first:n:n], all.values[first:n:n]}
		if bytes+10*n > cacheOne {
			return nil
		}
		// Slices that grew have left their old parts behind, which the rows before still hold: begin anew before that.
		if n+ticks > cap(all.starts) || n+ticks > cap(all.values) {
			size := max(4096, ticks)
			bytes += 10 * n
			all = runs{make([]uint16, 0, size), make([]float64, 0, size)}
		}
	}
	u := &unpacked{block: *b, bytes: bytes + 10*cap(all.values)}
	u.block.preload, u.block.fold, u.block.release, u.block.clockBuffers = nil, nil, nil, nil
	u.block.alive = func(i, from, to int) bool { return rows[i].alive(from, to) }
	u.block.runsOf = func(i int) *runs { return &rows[i] }
	u.block.column = func(i, from, to int, out []float64) error {
		rows[i].dense(from, to, out)
		return nil
	}
	return u
}

// put keeps a segment, and lets go of those that were not asked for longest.
func (c *cache) put(id uint64, u *unpacked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[uint64]*unpacked{}
	}
	if c.kept[id] != nil {
		return // another question was faster
	}
	u.usedAt = c.queries
	c.kept[id] = u
	delete(c.asked, id)
	c.scheduleEviction()
	c.bytes += u.bytes
	for c.bytes > cacheBytes {
		oldest := id
		for k, o := range c.kept {
			if o.usedAt < c.kept[oldest].usedAt {
				oldest = k
			}
		}
		c.drop(oldest)
	}
}

func (c *cache) drop(id uint64) {
	c.bytes -= c.kept[id].bytes
	delete(c.kept, id)
}

// age lets go of what was not asked for since it was called before, and has itself called again while anything is left.
func (c *cache) evictIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next, c.asked = nil, nil
	for id, u := range c.kept {
		if u.usedAt <= c.agedAt {
			c.drop(id)
		}
	}
	c.agedAt = c.queries
	if len(c.kept) > 0 {
		c.scheduleEviction()
	}
}

// close drops all.
func (c *cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		c.next.Stop()
	}
	c.kept, c.asked, c.bytes, c.next = nil, nil, 0, nil
}
