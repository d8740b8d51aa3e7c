package store

import (
	"compress/gzip"
	"encoding/binary"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"culprit/measure"
)

var keepAs = flag.String(
	"store.keepas", "",
	"write the archive of this program to this file of testdata, for tests of later programs",
)

// oldTicks fills an archive so that it has segments of ticks, minutes and hours, joined and not,
// and frames.
func oldTicks(t *testing.T, dir string) (*Store, *naive, measure.Interval) {
	s, n, w := filled(t, dir, Options{}, 31)
	start := someTime - someTime%measure.Time(
		hour,
	) + measure.Time(
		hour,
	) - measure.Time(
		420*measure.Second,
	)
	at := w.run(t, s, n, start, 760)
	s.Settle()
	return s, n, measure.Interval{Start: start, End: w.run(t, s, n, at, 30)}
}

// Archives of older programs return the data that these recorded. A file of testdata contains the
// keys and values of an archive, each after its length, compressed; the program that wrote it
// recorded the same ticks.
func TestOldArchivesAreRead(t *testing.T) {
	now, n, over := oldTicks(t, t.TempDir())
	now.Close()
	if *keepAs != "" {
		keep(t, *keepAs)
	}
	files, _ := filepath.Glob("testdata/archive-*.gz")
	if len(files) == 0 {
		t.Fatal("there are none")
	}
	for _, name := range files {
		dir := t.TempDir()
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range oldPairs(t, name) {
			if err := s.disk.pebble().Set(e.key, e.value, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		if s, err = Open(dir, Options{}); err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		for range 30 {
			compareAll(t, s, n, rnd, over)
		}
		if bad := s.Problems(); bad != nil {
			t.Error(name, bad)
		}
		for _, d := range s.datasets.byID {
			for r, list := range d.index {
				if len(list) == 0 {
					t.Errorf("%s: of %s there is nothing of resolution %d", name, d.desc.Query, r)
				}
			}
		}
		// Recording continues in the same archive.
		more := &naive{sets: n.sets, ticks: slices.Clone(n.ticks)}
		later := over.End - over.End%measure.Time(hour) + measure.Time(hour)
		for range 70 {
			later = later.Add(10 * measure.Second)
			ids, batches := []uint32{
				1,
			}, []*measure.Batch{
				{
					Stat: "test.thing.number0",
					By:   []string{"device", "pid"},
					Over: measure.Interval{Start: later.Add(-measure.Second), End: later},
				},
			}
			more.append(later, ids, batches)
			if err := s.Append(later, ids, batches); err != nil {
				t.Fatal(err)
			}
		}
		s.Settle()
		for range 10 {
			compareAll(t, s, more, rnd, over)
		}
		if bad := s.Problems(); bad != nil {
			t.Error(name, bad)
		}
		s.Close()
	}
}

// keep writes the archive of oldTicks to a file.
func keep(t *testing.T, name string) {
	s, _, _ := oldTicks(t, t.TempDir())
	defer s.Close()
	s.disk.settle()
	f, err := os.Create(*keepAs)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	defer z.Close()
	_, err = s.disk.walk([]byte{0}, []byte{255}, false, func(key, value []byte) error {
		var b []byte
		for _, part := range [][]byte{key, value} {
			b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
		}
		_, err := z.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// oldPairs returns what keep wrote.
func oldPairs(tb testing.TB, name string) (out []pair) {
	f, err := os.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	all, err := io.ReadAll(z)
	r := &reader{b: all}
	for len(r.b) > 0 {
		key := r.bytes(r.uvarint())
		out = append(out, pair{key, r.bytes(r.uvarint())})
	}
	if err != nil || r.err != nil {
		tb.Fatal(err, r.err)
	}
	return out
}

// wellKept fails when the ticks, keys and groups on disk are not exactly those that segments use.
func wellKept(t *testing.T, s *Store) {
	t.Helper()
	want := map[string]bool{}
	for _, d := range s.datasets.byID {
		for _, list := range d.index {
			for _, e := range list {
				if e.clock != 0 {
					want[string(ownKey(kindClock, e.clockID()))] = true
					want[string(ownKey(kindKeys, e.keysID()))] = true
					want[string(ownKey(kindClockAgain, e.clockID()))] = true
				}
				for n := range int(e.groups) {
					want[string(e.groupKey(n))] = true
				}
			}
		}
	}
	for _, kind := range []byte{kindClock, kindClockAgain, kindKeys, kindGroup, kindGroupOld} {
		err := s.disk.scan(prefix(kind), func(key, _ []byte) error {
			if !want[string(key)] {
				t.Errorf("%q is of no segment", key)
			}
			delete(want, string(key))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for key := range want {
		t.Errorf("%q is missing", key)
	}
}
