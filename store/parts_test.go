package store

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"culprit/measure"
)

// A late batch of one source is a tick of its datasets only: at the time of the others' tick or an
// earlier one, some seconds later. Nothing is lost, in memory, after a kill, and in segments.
func TestTicksInParts(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		mem := vfs.NewCrashableMem()
		o := Options{fs: mem}
		s, n, w := filled(t, "archive", o, seed)
		at := someTime
		type part struct {
			at      measure.Time
			ids     []uint32
			batches []*measure.Batch
		}
		give := func(p part) {
			if len(p.ids) == 0 {
				return
			}
			n.append(p.at, p.ids, p.batches)
			if err := s.Append(p.at, p.ids, p.batches); err != nil {
				t.Fatal(err)
			}
		}
		var held []part // of the last datasets
		holding, last := 0, uint32(0)
		for range 700 {
			at = at.Add(measure.Second)
			ids, batches := w.batches(at)
			now := part{at: at}
			late := part{at: at}
			if holding == 0 && r.IntN(12) == 0 {
				// which of them are late, and for how many ticks
				holding, last = 1+r.IntN(3), uint32(1+r.IntN(3))
			}
			for i, id := range ids {
				to := &now
				if holding > 0 && id > last {
					to = &late
				}
				c := *batches[i]
				to.ids, to.batches = append(to.ids, id), append(to.batches, &c)
			}
			give(now)
			held = append(held, late)
			if holding > 0 {
				holding--
			}
			if holding == 0 {
				for _, p := range held {
					give(p)
				}
				held = nil
			}
		}
		over := measure.Interval{Start: someTime, End: at}
		compareAll(t, s, n, w.r, over)
		s.disk.settle()
		if err := s.disk.sync(); err != nil {
			t.Fatal(err)
		}
		o.fs = mem.CrashClone(vfs.CrashCloneCfg{})
		s.Close()
		for range 2 {
			s, err := Open("archive", o)
			if err != nil {
				t.Fatal(err)
			}
			if trouble := s.Problems(); trouble != nil {
				t.Fatalf("seed %d: %v", seed, trouble)
			}
			compareAll(t, s, n, w.r, over)
			s.Settle()
			compareAll(t, s, n, w.r, over)
			s.Close()
		}
	}
}
