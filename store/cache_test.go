package store

import (
	"testing"
	"testing/synctest"
	"time"

	"culprit/measure"
)

// A segment is cached at its third query within a while, and evicted when no query uses it.
func TestCacheKeepsRepeatedQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cache
		defer c.close()
		for i, want := range []int{1, 2, 3} {
			c.mu.Lock()
			if got := c.countQuery(7); got != want {
				t.Fatalf("question %d is counted as number %d", i+1, got)
			}
			c.mu.Unlock()
		}
		c.put(7, &unpacked{bytes: 1000})
		c.mu.Lock()
		if c.kept[7] == nil || len(c.asked) != 0 || c.bytes != 1000 {
			t.Fatalf("kept %v, asked %v, %d bytes", c.kept, c.asked, c.bytes)
		}
		c.mu.Unlock()
		c.mu.Lock()
		c.queries++ // a query
		c.kept[7].usedAt = c.queries
		c.mu.Unlock()
		time.Sleep(cacheIdle + time.Second)
		if c.mu.Lock(); c.kept[7] == nil {
			t.Fatal("what was asked for within cacheIdle is dropped")
		}
		c.mu.Unlock()
		time.Sleep(cacheIdle)
		if c.mu.Lock(); len(c.kept) != 0 || c.bytes != 0 || c.next != nil {
			t.Fatalf("kept %v of %d bytes though nobody asks", c.kept, c.bytes)
		}
		c.mu.Unlock()
	})
}

// A single query, as by a diagnosis, causes no caching.
func TestCacheIgnoresSingleQueries(t *testing.T) {
	s, n, w := filled(t, t.TempDir(), Options{}, 12)
	defer s.Close()
	w.run(t, s, n, someTime, 700)
	s.Settle()
	for id, d := range n.sets {
		over := measure.Interval{
			Start: someTime.Add(10 * measure.Second),
			End:   someTime.Add(20 * measure.Second),
		}
		if err := compare(s, n, id, measure.Query{
			Stat: d.Stat.ID, By: []string{"device", "pid"}, Step: measure.Second, Over: over,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.cache.kept) != 0 || s.cache.bytes != 0 {
		t.Errorf("%d segments of %d bytes are kept unpacked", len(s.cache.kept), s.cache.bytes)
	}
}
