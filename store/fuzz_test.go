package store

import (
	"testing"

	"culprit/heapbound"
	"culprit/measure"
)

// dump returns the values of a store's keys of a kind.
func dump(tb testing.TB, s *Store, kind byte) (out [][]byte) {
	tb.Helper()
	err := s.disk.scan(prefix(kind), func(_, value []byte) error {
		out = append(out, append([]byte(nil), value...))
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func someStore(f *testing.F, ticks int) *Store {
	w, s := newWorld(21), (*Store)(nil)
	s, err := Open(f.TempDir(), Options{})
	if err != nil {
		f.Fatal(err)
	}
	for i := range w.sets {
		if w.sets[i].ID, err = s.Save(w.sets[i]); err != nil {
			f.Fatal(err)
		}
	}
	at := someTime
	for range ticks {
		at = at.Add(measure.Second)
		ids, batches := w.batches(at)
		if err := s.Append(at, ids, batches); err != nil {
			f.Fatal(err)
		}
	}
	s.Settle()
	return s
}

// Any bytes as a frame are ticks or an error, and take memory in proportion to their length.
func FuzzFrames(f *testing.F) {
	s := someStore(f, 30)
	frames := dump(f, s, kindFrame)
	sets := s.datasets.byID
	s.Close()
	for i := range frames[1:] {
		f.Add(frames[0], frames[i+1])
	}
	var c codec
	heapbound.Fuzz(f, func(t *testing.T, first, second []byte) {
		var u *unframer
		for _, b := range [][]byte{first, second} {
			h, r, err := openFrame(&c, b)
			if err != nil {
				continue
			}
			if u == nil {
				u = &unframer{w: newWindow(1, 0)}
			}
			if u.frame(h, r, sets) != nil {
				continue
			}
			for _, p := range u.w.parts {
				out := make([]float64, len(p.ticks))
				for i := range p.cols {
					p.dense(i, 0, len(out), out)
				}
			}
		}
	})
}

// Headers of the versions that contain ticks and keys.
func FuzzHeader(f *testing.F) {
	for _, e := range oldPairs(f, "testdata/archive-1.gz") {
		if e.key[0] == kindHeader {
			f.Add(e.value)
		}
	}
	var c codec
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		for _, stack := range [][]bool{{false, false}, {true, false}, nil} {
			for resolution := range uint8(3) {
				block, groups, err := openHeader(&c, b, resolution, stack)
				if err != nil {
					continue
				}
				rows := 0
				for _, n := range groups {
					rows += n
				}
				if rows != block.rows || len(block.keys) != rows*len(stack) {
					t.Fatal(rows, block.rows, len(block.keys))
				}
			}
		}
	})
}

// Any bytes as shared ticks and keys.
func FuzzOwn(f *testing.F) {
	s := someStore(f, 700)
	for _, kind := range []byte{kindClock, kindKeys} {
		for _, v := range dump(f, s, kind) {
			f.Add(v)
		}
	}
	s.Close()
	var c codec
	heapbound.Fuzz(f, func(t *testing.T, value []byte) {
		for resolution := range uint8(3) {
			r, err := openOwn(&c, value, clockHead(resolution), maxClock, nil)
			if err != nil {
				continue
			}
			var b block
			if readClock(r, &b, resolution); r.err != nil {
				continue
			}
			for _, n := range b.noteRuns {
				if int(n.last) >= len(b.ticks)+len(b.cells) || n.last < n.first {
					t.Fatal(n)
				}
			}
		}
		for _, stack := range [][]bool{{false, false}, {true, false}, nil} {
			r, err := openOwn(&c, value, keysHead(), maxHeader, nil)
			if err != nil {
				continue
			}
			var b block
			if readKeys(r, stack, &b); r.err == nil && len(b.keys) != b.rows*len(stack) {
				t.Fatal(b.rows, len(b.keys))
			}
		}
	})
}

func FuzzDist(f *testing.F) {
	d := measure.Dist{Base: 2}
	d.Add(5, 1)
	d.Add(1<<60, 3)
	f.Add(appendBuckets(nil, &d))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		var d measure.Dist
		r := reader{b: b}
		if mergeBuckets(&r, &d); r.err == nil && len(d.Counts) > maxBucket+1 {
			t.Fatal(len(d.Counts))
		}
	})
}

// Any bytes as a group of a rollup are rows or an error.
func FuzzRolls(f *testing.F) {
	s := someStore(f, 700)
	for _, d := range s.datasets.byID {
		for _, e := range d.index[inMinutes] {
			for n := range int(e.groups) {
				if v, err := s.disk.get(e.groupKey(n)); err == nil {
					f.Add(v, int(e.rows), int(e.ticks))
				}
			}
		}
	}
	s.Close()
	var c codec
	heapbound.Fuzz(f, func(t *testing.T, b []byte, rows, cells int) {
		if rows < 1 || cells < 1 || rows > 1<<16 || cells > 1<<16 {
			return
		}
		var g rollGroup
		if g.open(&c, b, rows, cells) != nil {
			return
		}
		var out [rollColumns][]float64
		for k := range out {
			out[k] = make([]float64, cells)
		}
		for _, kind := range []rollKind{{}, {rate: true, zero: true, unit: 1}} {
			for i := range rows {
				g.row(i, kind, make([]cellInfo, cells), &out)
			}
		}
	})
}
