package store

import (
	"cmp"
	"flag"
	"slices"
	"testing"

	"culprit/measure"
)

var recorded = flag.String(
	"store.recorded", "", "a recorded archive, whose segments the benchmark makes again",
)

// BenchmarkRecorded makes the segments of a recorded archive again, as if all its hours were over.
// It reports their size and its parts: per stored value (one that a tick has), and per value
// (including the zeros of sparse rows between the first and the last stored value of a row in five
// minutes, as a scrape of counters would have them).
func BenchmarkRecorded(b *testing.B) {
	if *recorded == "" {
		return
	}
	s, rows, stored, values := remade(b, *recorded)
	defer s.Close()
	shares := 0.0
	var bytes [3]float64
	for _, d := range s.datasets.byID {
		for r, list := range d.index {
			for _, e := range list {
				bytes[r] += float64(e.bytes)
				shares += 2 * float64(len(e.value())+segmentKeyLen)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(rows, "rows")
	b.ReportMetric(stored, "stored")
	b.ReportMetric(values, "values")
	b.ReportMetric((bytes[0]+bytes[1]+bytes[2])/values, "B/value")
	b.ReportMetric((bytes[0]+bytes[1]+bytes[2])/stored, "B/stored")
	for r, name := range []string{"ticks", "minutes", "hours"} {
		b.ReportMetric(bytes[r]/values, "B-"+name+"/value")
	}
	b.ReportMetric(shares/values, "B-index/value")
	for kind, name := range map[byte]string{
		kindClock: "clocks", kindClockAgain: "clocks-again", kindKeys: "keys",
		kindHeader: "headers",
	} {
		n := 0
		for _, v := range dump(b, s, kind) {
			n += len(v) + 9
		}
		b.ReportMetric(float64(n)/values, "B-"+name+"/value")
	}
}

// remade makes the segments of an archive again, and counts rows of segments, stored values, and
// values from the first to the last of a row.
func remade(tb testing.TB, dir string) (s *Store, rows, stored, values float64) {
	from, err := OpenReadOnly(dir)
	if err != nil {
		tb.Fatal(err)
	}
	defer from.Close()
	s, err = Open(tb.TempDir(), Options{Size: 1 << 40})
	if err != nil {
		tb.Fatal(err)
	}
	var all []entry
	ids := map[uint32]uint32{}
	for _, d := range from.Datasets() {
		all = append(all, from.datasets.byID[d.ID].index[inTicks]...)
		old := d.ID
		d.ID = 0
		if ids[old], err = s.Save(d); err != nil {
			tb.Fatal(err)
		}
	}
	slices.SortFunc(
		all,
		func(a, b entry) int {
			return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.set, b.set))
		},
	)
	err = s.runInCompactor(func() error {
		for i, e := range all {
			if i == 0 || e.first != all[i-1].first {
				s.compactor.builder.beginHour(e.over.End)
			}
			d := s.datasets.byID[ids[e.set]]
			blk, err := e.read(&s.codec, from.disk.fetch, d, nil)
			if err != nil {
				return err
			}
			var segs []*segment
			blocks := []*block{blk}
			for _, resolution := range []uint8{inTicks, inMinutes} {
				seg, err := s.compactor.builder.build(d, resolution, blocks)
				if err != nil {
					return err
				}
				if seg == nil {
					continue
				}
				seg.first, seg.last = e.first, e.last
				segs = append(segs, seg)
			}
			s.compactor.builder.done()
			if err := s.disk.put(segs); err != nil {
				return err
			}
			s.mu.Lock()
			for _, seg := range segs {
				d.insert(seg.entry)
				s.newest = max(s.newest, seg.over.End)
			}
			s.mu.Unlock()
			stored, rows = stored+float64(e.samples), rows+float64(e.rows)
			values += between(blk, d)
		}
		s.mu.Lock()
		s.newest = s.newest.Add(day)
		s.mu.Unlock()
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.Settle()
	return s, rows, stored, values
}

// between counts the ticks from the first to the last value of each row.
func between(b *block, d *set) (n float64) {
	out := make([]float64, len(b.ticks))
	for i := range b.rows {
		if d.desc.Stat.Kind == measure.Dists {
			_ = b.dists(i, func(int, *reader) { n++ })
			continue
		}
		if b.column(i, 0, len(out), out) != nil {
			continue
		}
		first, last := -1, -1
		for t, v := range out {
			if !isAbsent(v) {
				if first < 0 {
					first = t
				}
				last = t
			}
		}
		if first >= 0 {
			n += float64(last - first + 1)
		}
	}
	return n
}
