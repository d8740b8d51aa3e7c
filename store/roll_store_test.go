package store

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"culprit/measure"
)

// The stored extremes are close bounds, and don't change when they are stored again.
func TestExtremesAreBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	parts := 0
	for range 200_000 {
		k := rollKind{
			rate: r.IntN(4) > 0,
			zero: r.IntN(2) == 0,
			unit: []float64{1, 10, 1e9}[r.IntN(3)],
		}
		n := 1 + r.IntN(4)*r.IntN(100)
		e := extremes{
			n:     float64(n),
			zeros: k.zero && r.IntN(2) == 0,
			least: math.Inf(1),
			most:  math.Inf(-1),
		}
		for range n {
			v := float64(r.IntN(1 << r.IntN(40)))
			switch r.IntN(30) {
			case 0:
				v = -v
			case 1:
				v = r.NormFloat64() * 1e-9
			}
			e.sum += v
			if k.rate {
				v /= k.unit * (1 + r.NormFloat64()*1e-3)
			}
			e.least, e.most = min(e.least, v), max(e.most, v)
		}
		if e.zeros {
			e.least, e.most = min(e.least, 0), max(e.most, 0)
		}
		kept := e
		kept.pack(k)
		parts += b2i(!isAbsent(kept.mostPart))
		got := kept
		got.unpack(k)
		if !(got.least <= e.least && got.most >= e.most) &&
			!(n == 1 && alike(got.least, e.least) && alike(got.most, e.most)) {
			t.Fatalf("%+v unpacks as %v to %v", e, got.least, got.most)
		}
		if math.Abs(got.least-e.least) > math.Abs(e.least)/43000 ||
			math.Abs(got.most-e.most) > math.Abs(e.most)/43000 {
			t.Fatalf("%+v unpacks as %v to %v, which is far", e, got.least, got.most)
		}
		again := extremes{sum: e.sum, n: e.n, zeros: e.zeros, least: got.least, most: got.most}
		again.pack(k)
		again.unpack(k)
		if again.least != got.least || again.most != got.most {
			t.Fatalf(
				"%+v: %v to %v, kept again %v to %v", e, got.least, got.most, again.least,
				again.most,
			)
		}
	}
	if parts < 1000 {
		t.Error(parts)
	}
}

// Rows that don't change have one key table per hour, which remains after the first segment that
// uses it is deleted.
func TestEqualKeysAreStoredOnce(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := newGenerator(t, s, 2, 400, 0, 0)
	start := someTime - someTime%measure.Time(hour)
	end := g.fill(t, s, start, 3000)
	s.Settle()
	d := s.datasets.byID[1]
	rings := func() map[uint64]int {
		out := map[uint64]int{}
		for _, e := range d.index[inTicks] {
			out[e.keysID()]++
		}
		return out
	}
	if all := rings(); len(all) != 1 {
		t.Fatal(all)
	}
	if err := s.Discard(1, measure.Interval{
		Start: start, End: start.Add(400 * measure.Second),
	}); err != nil {
		t.Fatal(err)
	}
	s.Settle()
	wellKept(t, s)
	end = g.fill(t, s, end, 1200)
	s.Settle()
	wellKept(t, s)
	// before it, the rest of the segment that was cut, the rest of the hour, the next hour
	if all := rings(); len(all) != 4 {
		t.Fatal(all)
	}
	a, err := s.Ask(
		t.Context(),
		measure.Query{
			Stat: d.desc.Stat.ID,
			By:   []string{"device", "direction"},
			Step: measure.Second,
		},
	)
	if err != nil || len(a.Series) != 400 || a.Over().End != end || len(a.Loss) != 0 {
		t.Fatal(err, len(a.Series), a.Over(), a.Loss)
	}
}

// Corrupt ticks are read from their copy; without either the segment is a gap with a loss.
func TestCorruptTicksAreReadFromTheirCopy(t *testing.T) {
	s, n, w := filled(t, t.TempDir(), Options{}, 5)
	defer s.Close()
	start := someTime - someTime%measure.Time(hour)
	end := w.run(t, s, n, start, 700)
	s.Settle()
	spoil := func(kind byte) {
		for _, d := range s.datasets.byID {
			for _, list := range d.index {
				for _, e := range list {
					key := ownKey(kind, e.clockID())
					if err := s.disk.pebble().Set(key, []byte("corrupt"), pebble.NoSync); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	spoil(kindClock)
	compareAll(t, s, n, w.r, measure.Interval{Start: start, End: end})
	spoil(kindClockAgain)
	a, err := s.Ask(
		t.Context(),
		measure.Query{
			Stat: s.datasets.byID[1].desc.Stat.ID,
			By:   []string{"device", "pid"},
			Step: measure.Second,
		},
	)
	if err != nil || len(a.Loss) == 0 {
		t.Fatal(err, a.Loss)
	}
}
