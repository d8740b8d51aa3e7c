package collect

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/measure"
)

// slowCollector counts its readings in a row of statistic id. While hold is locked a reading waits.
type slowCollector struct {
	id   measure.StatID
	name string // of its row, with the number of the reading
	hold sync.Mutex

	mu     sync.Mutex // guards the fields below
	reads  int
	closed int
}

func (c *slowCollector) Stats() []measure.Stat {
	return []measure.Stat{{ID: c.id, Fields: []measure.Field{{Name: "name"}}, Kind: measure.Delta}}
}

func (c *slowCollector) Open(*Env, Want) (Reading, error) { return c, nil }

func (c *slowCollector) Read(out *Out) error {
	c.mu.Lock()
	c.reads++
	n := c.reads
	c.mu.Unlock()
	c.hold.Lock()
	defer c.hold.Unlock()
	for i := range n { // words that other dictionaries lack
		out.Label(fmt.Sprint(c.name, " word ", i))
	}
	out.Table(c.id).Row(1, fmt.Sprint(c.name, " ", n))
	return nil
}

func (c *slowCollector) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
}

func (c *slowCollector) counts() (reads, closed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads, c.closed
}

// tickRows is a tick as text: the rows and notes by statistic, and the length of the intervals.
type tickRows struct {
	rows, notes map[measure.StatID]string
	over        map[measure.StatID]time.Duration
}

// startSource runs a source of the collectors and returns its ticks.
func startSource(t *testing.T, collectors ...Collector) (
	s *Source, next func() tickRows, stop func() error,
) {
	s = New(Env{Long: true}, collectors...)
	var queries []measure.Query
	for _, st := range s.Stats() {
		queries = append(queries, measure.Query{
			Stat: st.ID, By: []string{"name"}, Step: 500 * measure.Millisecond,
		})
	}
	ticks := make(chan tickRows, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, queries, measure.SinkFunc(func(batches []*measure.Batch) error {
			k := tickRows{map[measure.StatID]string{}, map[measure.StatID]string{},
				map[measure.StatID]time.Duration{}}
			for _, b := range batches {
				for i := range b.Rows() {
					k.rows[b.Stat] += b.Labels[b.Key(i)[0]] + ";"
				}
				k.notes[b.Stat] += strings.Join(b.Notes, "; ")
				k.over[b.Stat] = max(k.over[b.Stat], b.Over.Span().AsDuration())
			}
			ticks <- k
			return nil
		}))
	}()
	next = func() tickRows {
		t.Helper()
		select {
		case k := <-ticks:
			return k
		case <-time.After(30 * time.Second):
			t.Fatal("no tick for 30 seconds")
		}
		panic("unreachable")
	}
	return s, next, func() error { cancel(); return <-ended }
}

// TestReadingThatHangs: the ticks of all other collectors go on while a reading does not end. It is
// in a later tick, with the length of its own interval.
func TestReadingThatHangs(t *testing.T) {
	slow := &slowCollector{id: "slow.stat", name: "slow"}
	fast := &slowCollector{id: "fast.stat", name: "fast"}
	after := &slowCollector{id: "shared.stat", name: "after"}
	same := &slowCollector{id: "slow.stat", name: "same"}
	_, next, stop := startSource(t, fast, slow, after, same)
	if k := next(); !strings.HasPrefix(k.rows["slow.stat"], "slow 2;same 2;") ||
		!strings.HasPrefix(k.rows["fast.stat"], "fast 2;") {
		t.Fatalf("the first tick: %+v", k)
	}
	slow.hold.Lock()
	held := time.Now()
	blind := 0
	for n := 0; blind < 3 && n < 100; n++ {
		k := next()
		if !strings.HasPrefix(k.rows["fast.stat"], "fast ") ||
			!strings.HasPrefix(k.rows["shared.stat"], "after ") || k.over["fast.stat"] == 0 {
			t.Errorf("another collector while a reading hangs: %+v", k)
		}
		if strings.Contains(k.notes["slow.stat"], stillReading) {
			blind++
			if strings.Contains(k.rows["slow.stat"], "slow ") ||
				!strings.Contains(k.rows["slow.stat"], "same ") {
				t.Errorf("rows while a reading hangs: %+v", k)
			}
		}
	}
	if reads, _ := slow.counts(); blind < 3 || reads > 100 {
		t.Fatalf("%d ticks without the reading that hangs", blind)
	}
	slow.hold.Unlock()
	hung := time.Since(held)
	late := tickRows{}
	for n := 0; n < 100 && !strings.Contains(late.notes["slow.stat"], readLate); n++ {
		late = next()
	}
	if !strings.Contains(late.rows["slow.stat"], "slow ") ||
		!strings.Contains(late.rows["slow.stat"], "same ") ||
		strings.Contains(late.rows["slow.stat"], "word") {
		t.Errorf("the tick of the reading that hung: %+v", late)
	}
	k := next()
	if k.over["slow.stat"] < hung/2 || strings.Contains(k.notes["slow.stat"], readLate) {
		t.Errorf("after %v the interval of the next reading is %v, notes %q", hung,
			k.over["slow.stat"], k.notes["slow.stat"])
	}
	for range quickReadings + 2 {
		k = next()
	}
	if !strings.Contains(k.rows["slow.stat"], "slow ") || k.notes["slow.stat"] != "" {
		t.Errorf("long after it: %+v", k)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	for _, c := range []*slowCollector{slow, fast, after, same} {
		if _, closed := c.counts(); closed != 1 {
			t.Errorf("%s was closed %d times", c.name, closed)
		}
	}
}

// TestRunEndsWhileReadingHangs: Run returns, and the collector is closed when its reading has
// ended. A reading that hangs for long is a problem.
func TestRunEndsWhileReadingHangs(t *testing.T) {
	slow := &slowCollector{id: "slow.stat", name: "slow"}
	fast := &slowCollector{id: "fast.stat", name: "fast"}
	slow.hold.Lock()
	s, next, stop := startSource(t, slow, fast)
	if k := next(); k.rows["slow.stat"] != "" || k.over["slow.stat"] != 0 ||
		k.notes["slow.stat"] != stillReading {
		t.Errorf("a first reading that hangs: %+v", k)
	}
	for end := time.Now().Add(60 * time.Second); len(s.Problems()) == 0; {
		if next(); time.Now().After(end) {
			t.Fatal("a reading that hangs is no problem")
		}
	}
	if p := s.Problems(); len(p) != 1 || p[0].Key != "silent: slow.stat" ||
		!strings.HasPrefix(p[0].Text, "not measured for now: slow.stat: a reading that began at ") {
		t.Errorf("problems %+v", p)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, closed := slow.counts(); closed != 0 || len(s.Problems()) != 0 {
		t.Errorf("closed %d times while it is read; problems %v", closed, s.Problems())
	}
	slow.hold.Unlock()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, closed := slow.counts(); closed == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it is never closed")
		}
	}
}
