package store

import (
	"math"
	"sync"
	"time"

	"culprit/measure"
)

// cache keeps unpacked segments of ticks, as runs. A replay asks about one second at a time of a
// segment of hundreds of ticks, and would unpack all of it each time. A segment is cached at its
// cacheAfter-th query and evicted when no query used it for cacheIdle. Its lock is taken last.
type cache struct {
	mu   sync.Mutex // guards the fields below
	kept map[uint64]*unpacked
	// how often a segment that is not cached was read, since evictIdle last ran
	asked   map[uint64]int
	bytes   int
	queries uint64      // number of queries
	agedAt  uint64      // value of queries when evictIdle last ran
	next    *time.Timer // calls evictIdle; nil when nothing can be evicted
}

// unpacked is an unpacked segment. Only usedAt changes.
type unpacked struct {
	block  block
	bytes  int
	usedAt uint64 // number of the newest query
}

const (
	cacheBytes = 8 << 20          // of all segments
	cacheOne   = 3 << 20          // of one segment
	cacheIdle  = 15 * time.Second // an unused segment is evicted after at most twice this time
	// cacheAfter is how many queries of a segment cause it to be cached. A diagnosis just after a
	// window has become segments reads each once or twice.
	cacheAfter = 3
)

// read reads a segment to answer a query about over.
func (c *cache) read(
	codec *codec, e entry, get getter, d *set, over measure.Interval, last *block,
) (*block, error) {
	asked := min(e.over.End, over.End).Sub(max(e.over.Start, over.Start))
	if e.resolution != inTicks || d.desc.Stat.Kind == measure.Dists || asked > e.over.Span()/8 ||
		e.ticks > math.MaxUint16 {
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

// countQuery counts a query of a segment that is not cached and returns the count. mu is held.
func (c *cache) countQuery(id uint64) int {
	if c.asked == nil {
		c.asked = map[uint64]int{}
	}
	c.asked[id]++
	c.scheduleEviction()
	return c.asked[id]
}

// scheduleEviction starts the timer of evictIdle. mu is held.
func (c *cache) scheduleEviction() {
	if c.next == nil {
		c.next = time.AfterFunc(cacheIdle, c.evictIdle)
	}
}

// unpack returns the runs of all rows of a segment; nil when they are too large, or corrupt.
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
		// A slice that grows leaves its old array to the rows that refer to it. Start a new array
		// before that.
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

// put caches a segment and evicts the least recently used ones.
func (c *cache) put(id uint64, u *unpacked) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[uint64]*unpacked{}
	}
	if c.kept[id] != nil {
		return // another query was faster
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

// evictIdle drops the segments that no query used since its last run. It schedules itself again
// while any is left.
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

// close drops all segments.
func (c *cache) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		c.next.Stop()
	}
	c.kept, c.asked, c.bytes, c.next = nil, nil, 0, nil
}
