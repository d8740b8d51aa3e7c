package store

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"culprit/measure"
)

// While a dataset has far more rows than fit into memory, one with a single row loses no value,
// whatever the disk does.
func TestManyRowsDoNotEvictFew(t *testing.T) {
	for name, c := range map[string]struct{ full, keepOld bool }{
		"slow disk":                {},
		"full disk":                {full: true},
		"full disk, the old stays": {full: true, keepOld: true},
	} {
		t.Run(name, func(t *testing.T) {
			const memory, ticks, burst = 1 << 20, 1500, 200
			disk := &faulty{FS: vfs.NewMem()}
			s, err := Open(
				"archive", Options{fs: disk, Rows: 1000, Memory: memory, KeepOld: c.keepOld},
			)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { s.Close() }()
			save := func(stat measure.StatID, by ...string) uint32 {
				st := measure.Stat{ID: stat, Kind: measure.Level}
				for _, f := range by {
					st.Fields = append(st.Fields, measure.Field{Name: f})
				}
				id, err := s.Save(
					measure.Dataset{
						Stat:  st,
						Query: measure.Query{Stat: stat, By: by, Step: measure.Second},
					},
				)
				if err != nil {
					t.Fatal(err)
				}
				return id
			}
			many, few := save("many.rows", "name"), save("one.row")
			release := make(chan struct{})
			free := sync.OnceFunc(func() { close(release) })
			defer free()
			if c.full {
				disk.full.Store(true)
			} else {
				busy := make(chan struct{})
				go func() {
					_ = s.runInCompactor(func() error {
						close(busy)
						<-release
						return nil
					})
				}()
				<-busy
			}
			next := 0
			for i := range measure.Time(ticks) {
				at := someTime + (i+1)*1e9
				over := measure.Interval{Start: at - 1e9, End: at}
				flood := &measure.Batch{Stat: "many.rows", By: []string{"name"}, Over: over}
				for j := range burst {
					next++
					flood.Labels = append(
						flood.Labels, "a long name of a thing "+strconv.Itoa(next),
					)
					flood.Keys = append(flood.Keys, measure.Label(j))
					flood.Values = append(flood.Values, 1)
				}
				one := &measure.Batch{Stat: "one.row", Over: over, Values: []float64{float64(i)}}
				batches := []*measure.Batch{flood, one}
				if err := s.Append(at, []uint32{many, few}, batches); err != nil {
					t.Fatal(err)
				}
				size := 0
				for _, w := range s.windows() {
					size += w.size()
				}
				if size > 2*memory {
					t.Fatalf("%d bytes after %d ticks", size, i)
				}
			}
			check := func() {
				t.Helper()
				over := measure.Interval{Start: someTime, End: someTime.Add(ticks * measure.Second)}
				a, err := s.Ask(
					context.Background(),
					measure.Query{Stat: "one.row", Step: measure.Second, Over: over},
				)
				if err != nil {
					t.Fatal(err)
				}
				if len(a.Loss) > 0 || len(a.Series) != 1 {
					t.Fatalf("%d series, lost %v", len(a.Series), a.Loss)
				}
				for i, v := range a.Series[0].Values {
					if v != float64(i) {
						t.Fatalf("value %d is %v", i, v)
					}
				}
			}
			check()
			if c.full {
				disk.full.Store(false)
			} else {
				free()
			}
			s.Settle()
			// A pending loss is reported with the next tick.
			end := someTime.Add((ticks + 1) * measure.Second)
			empty := &measure.Batch{
				Stat: "many.rows",
				By:   []string{"name"},
				Over: measure.Interval{Start: end - 1e9, End: end},
			}
			if err := s.Append(end, []uint32{many}, []*measure.Batch{empty}); err != nil {
				t.Fatal(err)
			}
			check()
			a, err := s.Ask(
				context.Background(), measure.Query{Stat: "many.rows", Step: measure.Minute},
			)
			if err != nil {
				t.Fatal(err)
			}
			var lost uint64
			for _, l := range a.Loss {
				lost += l.Events
			}
			held := s.Held(many)
			var reported uint64
			for _, l := range held.Loss {
				reported += l.Events
			}
			if reported == 0 && !c.full || reported > lost || len(s.Held(few).Loss) > 0 {
				t.Errorf("the dataset reports %d as lost, its answer %d", reported, lost)
			}
			kept := held.Samples
			for _, w := range s.windows() {
				if p := w.parts[many]; p != nil {
					kept += uint64(p.samples())
				}
			}
			if lost == 0 || kept == 0 || kept+lost != ticks*burst {
				t.Errorf("%d kept and %d lost of %d: %v", kept, lost, ticks*burst, a.Loss)
			}
		})
	}
}

// The time of a dataset begins and ends with ticks, not with the minutes and hours that contain
// them.
func TestHeldTime(t *testing.T) {
	dir := t.TempDir()
	s, n, w := filled(t, dir, Options{}, 3)
	start := floor(someTime, hour).Add(37*measure.Minute + 17*measure.Second)
	end := w.run(t, s, n, start, 4000)
	first := map[uint32]measure.Time{}
	last := map[uint32]measure.Time{}
	for _, k := range n.ticks {
		if first[k.id] == 0 {
			first[k.id] = k.at
		}
		last[k.id] = k.at
	}
	check := func() {
		t.Helper()
		for id := range n.sets {
			want := measure.Interval{Start: first[id].Add(-measure.Second), End: last[id]}
			if got := s.Held(id).Over; got != want {
				t.Errorf(
					"dataset %d: %s to %s, want %s to %s", id, got.Start, got.End, want.Start,
					want.End,
				)
			}
		}
	}
	check()
	s.mu.Lock()
	s.closedWindows, s.window = append(s.closedWindows, s.window), nil
	s.mu.Unlock()
	s.Settle()
	check()
	s.Close()
	// Where ticks have expired, it begins with the first cell of the rollups.
	var err error
	if s, err = Open(dir, Options{KeepTicks: 10 * measure.Minute}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w.run(t, s, n, end, 1)
	s.Settle()
	for id := range n.sets {
		if got, want := s.Held(id).Over.Start, floor(start, measure.Minute); got != want {
			t.Errorf("dataset %d, without its oldest ticks: from %s, want %s", id, got, want)
		}
	}
}
