package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"culprit/measure"
)

// damages are the ways in which these tests spoil a file. A result of nil removes it.
var damages = []struct {
	name  string
	spoil func(b []byte, r *rand.Rand) []byte
}{
	{"emptied", func([]byte, *rand.Rand) []byte { return []byte{} }},
	{"halved", func(b []byte, _ *rand.Rand) []byte { return b[:len(b)/2] }},
	{"bit flipped", func(b []byte, r *rand.Rand) []byte {
		if len(b) > 0 {
			b[r.IntN(len(b))] ^= 1 << r.IntN(8)
		}
		return b
	}},
	{"4 KB zeroed", func(b []byte, r *rand.Rand) []byte {
		at := r.IntN(max(1, len(b)-4096))
		clear(b[at:min(at+4096, len(b))])
		return b
	}},
	{"last byte lost", func(b []byte, _ *rand.Rand) []byte { return b[:max(0, len(b)-1)] }},
	{"removed", func([]byte, *rand.Rand) []byte { return nil }},
}

// recordedArchive makes an archive in memory with tables of several levels, and its model.
func recordedArchive(t *testing.T, o Options, flushes int) (*naive, *world, measure.Time) {
	t.Helper()
	s, n, w := filled(t, "archive", o, 12)
	at := someTime
	for i := range flushes {
		at = w.run(t, s, n, at, 140)
		s.Settle()
		if err := s.disk.pebble().Flush(); err != nil {
			t.Fatal(err)
		}
		if i == flushes/2 {
			if err := s.disk.pebble().Compact(
				context.Background(), []byte{0}, []byte{0xff}, false,
			); err != nil {
				t.Fatal(err)
			}
		}
	}
	at = w.run(t, s, n, at, 60)
	s.Settle()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return n, w, at
}

// kept returns how many cells of a second the archive answers of those in the model. A cell that it
// answers differently is an error.
func kept(s *Store, n *naive, end measure.Time) (got, want int, err error) {
	for id, d := range n.sets {
		q := measure.Query{
			Stat: d.Stat.ID, By: []string{"device", "pid"}, Step: measure.Second,
			Over: measure.Interval{Start: someTime, End: end},
		}
		empty := measure.Answer{Start: someTime, Step: measure.Second}
		a, err := s.Ask(context.Background(), q)
		if errors.Is(err, measure.ErrUnclear) {
			a, err = &empty, nil
		}
		if err != nil {
			return 0, 0, err
		}
		cells := int(end.Sub(someTime) / measure.Second)
		model, elapsed := n.ask(id, q, someTime, measure.Second, cells, end)
		for _, row := range model {
			for c := range row {
				if row[c].value == row[c].value { //nolint:staticcheck // not NaN
					want++
				}
			}
		}
		for i, series := range a.Series {
			rows := model[a.Label(i, 0)+"\x00"+a.Label(i, 1)]
			for c, v := range series.Values {
				if v != v { //nolint:staticcheck // NaN
					continue
				}
				var row naiveCell
				if rows != nil {
					row = rows[c]
				}
				if rows == nil || !alike(v, row.value) || a.Elapsed[c] != elapsed[c] {
					return 0, 0, fmt.Errorf(
						"dataset %d: cell %d is %v measured over %v, want %v over %v", id, c, v,
						a.Elapsed[c], row, elapsed[c],
					)
				}
				got++
			}
		}
	}
	return got, want, nil
}

// copyArchive copies an archive to a new file system in memory.
func copyArchive(t *testing.T, from vfs.FS) *vfs.MemFS {
	t.Helper()
	to := vfs.NewMem()
	if _, err := vfs.Clone(from, to, "archive", "archive"); err != nil {
		t.Fatal(err)
	}
	return to
}

// spoil damages a file and reports whether that changes anything.
func spoil(
	t *testing.T, on vfs.FS, path string, how func([]byte, *rand.Rand) []byte, r *rand.Rand,
) bool {
	t.Helper()
	b, err := readFile(on, path)
	if err != nil {
		t.Fatal(err)
	}
	after := how(bytes.Clone(b), r)
	if after == nil {
		err = on.Remove(path)
	} else {
		err = writeFile(on, path, func(w io.Writer) error {
			_, err := w.Write(after)
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return after == nil || !bytes.Equal(b, after)
}

// contents returns all files of a directory.
func contents(t *testing.T, on vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := on.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range names {
		b, err := readFile(on, on.PathJoin(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(b)
	}
	return out
}

// Whatever happens to one file of an archive: the rest of what was recorded is answered as it was,
// the file is named, and recording goes on. Reading alone changes no file.
func TestOneDamagedFile(t *testing.T) {
	whole := vfs.NewMem()
	o := Options{fs: whole}
	n, w, end := recordedArchive(t, o, 6)
	names, err := whole.List("archive")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for i, damage := range damages {
			t.Run(name+" "+damage.name, func(t *testing.T) {
				on := copyArchive(t, whole)
				path := on.PathJoin("archive", name)
				if !spoil(t, on, path, damage.spoil, rand.New(rand.NewPCG(uint64(i), 4))) {
					return
				}
				checkDamaged(t, on, []string{name}, n, w, end)
			})
		}
	}
}

// The same for an archive whose program was killed, which leaves no inventory, and for several
// files at once. Not every damage can be noticed then, but none changes an answer.
func TestDamagedFilesAfterKill(t *testing.T) {
	whole := vfs.NewMem()
	n, w, end := recordedArchive(t, Options{fs: whole}, 4)
	if err := whole.Remove("archive/" + inventoryName); err != nil {
		t.Fatal(err)
	}
	names, err := whole.List("archive")
	if err != nil {
		t.Fatal(err)
	}
	for round := range 40 {
		r := rand.New(rand.NewPCG(uint64(round), 5))
		var some []string
		what := ""
		on := copyArchive(t, whole)
		for range 1 + round%3 {
			name, damage := names[r.IntN(len(names))], damages[r.IntN(len(damages))]
			if slices.Contains(some, name) {
				continue
			}
			some, what = append(some, name), what+name+" "+damage.name+" "
			spoil(t, on, on.PathJoin("archive", name), damage.spoil, r)
		}
		t.Run(what, func(t *testing.T) {
			checkDamaged(t, on, nil, n, w, end)
		})
	}
}

func checkDamaged(
	t *testing.T, on *vfs.MemFS, named []string, n *naive, w *world, end measure.Time,
) {
	t.Helper()
	before := contents(t, on, "archive")
	reader, err := open("archive", Options{fs: on}, true)
	if err != nil {
		t.Fatal(err)
	}
	read, want, err := kept(reader, n, end)
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	delete(before, "LOCK")
	after := contents(t, on, "archive")
	delete(after, "LOCK")
	for name, b := range after {
		if before[name] != b || len(before) != len(after) {
			t.Fatalf("reading changed %s", name)
		}
	}
	s, err := Open("archive", Options{fs: on})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	got, _, err := kept(s, n, end)
	if err != nil {
		t.Fatal(err)
	}
	if got != read {
		t.Errorf("%d cells are answered, %d were by reading alone", got, read)
	}
	t.Logf("%d of %d cells", got, want)
	trouble := ""
	for _, p := range s.Problems() {
		trouble += p.Text + "\n"
	}
	for _, name := range named {
		if name != "LOCK" && (name != inventoryName || before[name] != "") &&
			!strings.Contains(trouble, name) {
			t.Errorf("the problems do not name it: %q", trouble)
		}
		least := want
		if isTable(name) || isLog(name) {
			least = want / 4
		}
		if got < least {
			t.Errorf("%d of %d cells are answered:\n%s", got, want, trouble)
		}
	}
	// Recording goes on, and the next opening finds nothing wrong.
	more := &naive{sets: n.sets}
	of := trouble
	if named == nil && len(s.Datasets()) < len(n.sets) {
		return // both copies of a description are damaged
	}
	last := w.run(t, s, more, end, 5)
	s.Settle()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open("archive", Options{fs: on}); err != nil {
		t.Fatal(err)
	}
	if trouble := s.Problems(); len(trouble) > 0 {
		t.Errorf("the problems after the next opening are %v, before %s", trouble, of)
	}
	again, _, err := kept(s, &naive{sets: n.sets, ticks: slices.Concat(n.ticks, more.ticks)}, last)
	if err != nil {
		t.Fatal(err)
	}
	if again <= got {
		t.Errorf("%d cells are answered after more were recorded, %d before", again, got)
	}
}

// No table contains a key together with its copy.
func TestCopiesAreInOtherTables(t *testing.T) {
	on := vfs.NewMem()
	recordedArchive(t, Options{fs: on}, 3)
	s, err := Open("archive", Options{fs: on})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	levels, err := s.disk.pebble().SSTables()
	if err != nil {
		t.Fatal(err)
	}
	copies := map[byte]byte{
		kindIndex: kindIndexAgain, kindClock: kindClockAgain, kindDataset: kindDatasetAgain,
	}
	tables := 0
	for _, level := range levels {
		for _, table := range level {
			tables++
			first, last := table.Smallest.UserKey[0], table.Largest.UserKey[0]
			for kind, again := range copies {
				if min(kind, again) >= first && max(kind, again) <= last {
					t.Errorf("%s has keys from %q to %q", table.BackingSSTNum, first, last)
				}
			}
		}
	}
	if tables < 4 {
		t.Errorf("there are %d tables", tables)
	}
}
