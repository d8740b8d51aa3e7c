package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"culprit/measure"
)

var kills = flag.Int("store.kills", 25, "how often the archive's process is killed")

// upTo returns the model without the ticks after a time.
func (n *naive) upTo(at measure.Time) *naive {
	return &naive{
		sets: n.sets,
		ticks: slices.DeleteFunc(
			slices.Clone(n.ticks), func(t naiveTick) bool { return t.at > at },
		),
	}
}

// newest returns the newest tick of a store.
func newest(s *Store) (at measure.Time) {
	for _, d := range s.Datasets() {
		at = max(at, s.Held(d.ID).Over.End)
	}
	return at
}

// sample makes a few queries around a time.
func sample(t *testing.T, s *Store, n *naive, at measure.Time) {
	t.Helper()
	for id, d := range n.sets {
		for _, q := range []measure.Query{
			{By: []string{"device", "pid"}, Over: measure.Interval{
				Start: at.Add(-200 * measure.Second), End: at,
			}, Step: measure.Second},
			{By: []string{"device", "pid"}, Over: measure.Interval{
				Start: floor(at, measure.Minute).Add(-40 * measure.Minute), End: at,
			}, Step: measure.Minute},
		} {
			q.Stat = d.Stat.ID
			if err := compare(s, n, id, q); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// After a power failure the archive has a prefix of the appended ticks and lacks at most two
// seconds.
func TestPowerCuts(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 1))
		mem := vfs.NewCrashableMem()
		var clock atomic.Int64
		o := Options{fs: mem, clock: func() time.Time { return time.Unix(clock.Load(), 0) }}
		s, n, w := filled(t, "archive", o, seed)
		at := someTime
		for range 4 {
			for range 100 + r.IntN(400) {
				clock.Add(1)
				at = w.run(t, s, n, at, 1)
				s.disk.settle()
				if r.IntN(50) == 0 {
					s.Settle()
				}
			}
			cut := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.IntN(3) * 50, RNG: r})
			s.Close()
			mem, o.fs = cut, cut
			var err error
			if s, err = Open("archive", o); err != nil {
				t.Fatal(err)
			}
			if trouble := s.Problems(); trouble != nil {
				t.Fatal(trouble)
			}
			has, ticks := newest(s), 0
			for _, k := range n.ticks {
				if k.id == 1 && k.at > has {
					ticks++
				}
			}
			if ticks > 2 {
				t.Fatalf("%d ticks are lost", ticks)
			}
			n = n.upTo(has)
			sample(t, s, n, has)
			at = has
		}
		compareAll(t, s, n, w.r, measure.Interval{Start: someTime, End: at})
		s.Close()
	}
}

// faulty is a file system whose writes fail after a number of them.
type faulty struct {
	vfs.FS
	left   atomic.Int64 // writes until the failure; negative: failing
	broken atomic.Bool
	full   atomic.Bool
	seen   atomic.Int64
}

func (f *faulty) fault() error {
	f.seen.Add(1)
	if f.broken.Load() && f.left.Add(-1) < 0 {
		return syscall.EIO
	}
	if f.full.Load() {
		return syscall.ENOSPC
	}
	return nil
}

func (f *faulty) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if f.full.Load() {
		return vfs.DiskUsage{AvailBytes: 1 << 20}, nil
	}
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}

func (f *faulty) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	return &faultyFile{file, f}, err
}

func (f *faulty) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.fault(); err != nil {
		return nil, err
	}
	file, err := f.FS.ReuseForWrite(old, name, c)
	return &faultyFile{file, f}, err
}

func (f *faulty) Rename(old, name string) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.FS.Rename(old, name)
}

func (f *faulty) Remove(name string) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

type faultyFile struct {
	vfs.File
	fs *faulty
}

func (f *faultyFile) Write(b []byte) (int, error) {
	if err := f.fs.fault(); err != nil {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, err
	}
	return f.File.Write(b)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.fault(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) SyncData() error {
	if err := f.fs.fault(); err != nil {
		return err
	}
	return f.File.SyncData()
}

// Whichever write fails, appending continues, the appended ticks are answered, and everything is
// written when the disk works again.
func TestFailingWrites(t *testing.T) {
	for round := range 25 {
		r := rand.New(rand.NewPCG(uint64(round), 2))
		disk := &faulty{FS: vfs.NewMem()}
		o := Options{fs: disk, retryAfter: 1}
		s, n, w := filled(t, "archive", o, uint64(round))
		w.sets = w.sets[:2]
		at := w.run(t, s, n, someTime, r.IntN(300))
		s.Settle()
		disk.left.Store(r.Int64N(60))
		disk.broken.Store(true)
		for range 1 + r.IntN(5) {
			at = w.run(t, s, n, at, r.IntN(200))
			s.Settle()
		}
		sample(t, s, &naive{sets: map[uint32]measure.Dataset{1: n.sets[1]}, ticks: n.ticks}, at)
		if disk.left.Load() < 0 && s.disk.missesFrames() && len(s.Problems()) == 0 {
			t.Fatal("nothing is said of the fault")
		}
		disk.broken.Store(false)
		at = w.run(t, s, n, at, 1+r.IntN(400))
		s.Settle()
		s.Settle()
		if trouble := s.Problems(); len(trouble) > 0 {
			t.Fatal(trouble)
		}
		sample(t, s, &naive{sets: map[uint32]measure.Dataset{1: n.sets[1]}, ticks: n.ticks}, at)
		_ = s.Close() // Pebble may still report a fault that is over
		s, err := Open("archive", o)
		if err != nil {
			t.Fatal(err)
		}
		compareAll(
			t, s,
			&naive{sets: map[uint32]measure.Dataset{1: n.sets[1], 2: n.sets[2]}, ticks: n.ticks},
			w.r, measure.Interval{Start: someTime, End: at},
		)
		s.Close()
	}
}

func TestFullDisk(t *testing.T) {
	disk := &faulty{FS: vfs.NewMem()}
	o := Options{fs: disk, retryAfter: 1}
	s, n, w := filled(t, "archive", o, 77)
	at := w.run(t, s, n, someTime, 400)
	s.Settle()
	disk.full.Store(true)
	at = w.run(t, s, n, at, 700)
	s.Settle()
	trouble := s.Problems()
	if len(trouble) != 1 || !strings.Contains(trouble[0].Text, "full") &&
		!strings.Contains(trouble[0].Text, "no space left") { // whichever write failed last
		t.Fatal(trouble)
	}
	compareAll(t, s, n, w.r, measure.Interval{Start: someTime, End: at})
	disk.full.Store(false)
	at = w.run(t, s, n, at, 3)
	s.Settle()
	// a write that failed on the full disk may be reported only now, and the files are reopened
	// then
	s.Settle()
	if trouble := s.Problems(); len(trouble) > 0 {
		t.Fatal(trouble)
	}
	s.Close()
	s, err := Open("archive", o)
	if err != nil {
		t.Fatal(err)
	}
	compareAll(t, s, n, w.r, measure.Interval{Start: someTime, End: at})
	s.Close()
}

// With many new keys and a disk that accepts nothing for long, memory stays bounded and the loss is
// reported.
func TestMemoryIsBounded(t *testing.T) {
	for _, keepOld := range []bool{false, true} {
		disk := &faulty{FS: vfs.NewMem()}
		s, err := Open("archive", Options{fs: disk, Rows: 1000, Memory: 4 << 20, KeepOld: keepOld})
		if err != nil {
			t.Fatal(err)
		}
		st := measure.Stat{ID: "a.b", Kind: measure.Level, Fields: []measure.Field{{Name: "x"}}}
		id, err := s.Save(
			measure.Dataset{
				Stat:  st,
				Query: measure.Query{Stat: st.ID, By: []string{"x"}, Step: measure.Second},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		disk.full.Store(true)
		next := 0
		for i := range measure.Time(300) {
			at := someTime + i*1e9
			b := &measure.Batch{
				Stat: st.ID,
				By:   []string{"x"},
				Over: measure.Interval{Start: at - 1e9, End: at},
			}
			for j := range 5000 {
				next++
				b.Labels = append(b.Labels, strconv.Itoa(next))
				b.Keys, b.Values = append(b.Keys, measure.Label(j)), append(b.Values, 1)
			}
			if err := s.Append(at, []uint32{id}, []*measure.Batch{b}); err != nil {
				t.Fatal(err)
			}
			size := 0
			for _, w := range s.windows() {
				size += w.size()
			}
			if size > 6<<20 {
				t.Fatalf("%d bytes after %d ticks", size, i)
			}
		}
		disk.full.Store(false)
		s.Settle()
		b := &measure.Batch{
			Stat:   st.ID,
			By:     []string{"x"},
			Over:   measure.Interval{Start: someTime + 300e9, End: someTime + 301e9},
			Labels: []string{"1"},
			Keys:   []measure.Label{0},
			Values: []float64{1},
		}
		if err := s.Append(someTime+301e9, []uint32{id}, []*measure.Batch{b}); err != nil {
			t.Fatal(err)
		}
		a, err := s.Ask(context.Background(), measure.Query{Stat: st.ID, Step: measure.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var lost uint64
		for _, l := range a.Loss {
			lost += l.Events
		}
		kept := s.Held(id).Samples
		for _, w := range s.windows() {
			kept += uint64(w.parts[id].samples())
		}
		if kept+lost != 300*5000+1 {
			t.Errorf("%d kept and %d lost of %d: %v", kept, lost, 300*5000+1, a.Loss)
		}
		s.Close()
	}
}

// TestMain lets the test program be the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CULPRIT_STORE_VICTIM"); dir != "" {
		victim(dir)
		return
	}
	os.Exit(m.Run())
}

const victimSeed = 99

// victim appends the ticks of a world to those of the archive until it is killed. It prints which
// are written.
func victim(dir string) {
	var clock atomic.Int64
	s, err := Open(dir, Options{clock: func() time.Time { return time.Unix(clock.Load(), 0) }})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	w := newWorld(victimSeed)
	for i := range w.sets {
		w.sets[i].ID = uint32(i + 1)
	}
	if len(s.Datasets()) == 0 {
		for i := range w.sets {
			d := w.sets[i]
			d.ID = 0
			if _, err := s.Save(d); err != nil {
				fmt.Println("error", err)
				return
			}
		}
	}
	has := newest(s)
	for at := someTime + 1e9; ; at += 1e9 {
		ids, batches := w.batches(at)
		if at <= has {
			continue
		}
		clock.Add(1)
		if err := s.Append(at, ids, batches); err != nil {
			fmt.Println("error", err)
			return
		}
		if at/1e9%7 == 0 {
			s.disk.settle()
			fmt.Println(int64(at))
		}
	}
}

// After kill -9 at any moment the written ticks are in the archive, and it can be appended to.
func TestKills(t *testing.T) {
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(8, 8))
	w, n := newWorld(victimSeed), &naive{sets: map[uint32]measure.Dataset{}}
	for i := range w.sets {
		w.sets[i].ID = uint32(i + 1)
		n.sets[uint32(i+1)] = w.sets[i]
	}
	at := someTime
	for round := range *kills {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CULPRIT_STORE_VICTIM="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var written measure.Time
		lines := bufio.NewScanner(out)
		for count := r.IntN(150); lines.Scan() && count >= 0; count-- {
			v, err := strconv.ParseInt(lines.Text(), 10, 64)
			if err != nil {
				t.Fatal(lines.Text())
			}
			written = measure.Time(v)
		}
		for range r.IntN(3) * r.IntN(100000) { // somewhere within a tick
		}
		_ = cmd.Process.Kill()
		rest, _ := io.ReadAll(out)
		_ = cmd.Wait()
		for _, f := range bytes.Fields(rest) {
			if v, err := strconv.ParseInt(string(f), 10, 64); err == nil && len(f) == 19 {
				written = max(written, measure.Time(v))
			}
		}
		s, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		has := newest(s)
		if has < written-2e9 { // unsynced writes wait in the process for up to a second
			t.Fatalf("round %d: %s was written, %s is there", round, written, has)
		}
		for at < has {
			at += 1e9
			ids, batches := w.batches(at)
			n.append(at, ids, batches)
		}
		if trouble := s.Problems(); trouble != nil {
			t.Fatal(trouble)
		}
		if n = n.upTo(has); round%5 == 0 || round == *kills-1 {
			sample(t, s, n, has)
			s.Settle()
			wellKept(t, s)
		}
		s.Close()
	}
}

// Only one process can record in an archive; another one gets an error that names it. Afterwards
// the archive can be read without write permission.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenReadOnly(filepath.Join(dir, "none")); err == nil {
		t.Fatal("there is no archive")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CULPRIT_STORE_VICTIM="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range 60 {
		lines.Scan()
	}
	for _, open := range []func() (*Store, error){
		func() (*Store, error) { return OpenReadOnly(dir) },
		func() (*Store, error) { return Open(dir, Options{}) },
	} {
		if _, err := open(); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprintf("process %d ", cmd.Process.Pid)) {
			t.Error(err)
		}
	}
	_ = cmd.Process.Kill()
	_, _ = io.ReadAll(out)
	_ = cmd.Wait()
	s, err := OpenReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w, n := newWorld(victimSeed), &naive{sets: map[uint32]measure.Dataset{}}
	for _, d := range s.Datasets() {
		n.sets[d.ID] = d
		w.sets[d.ID-1].ID = d.ID
	}
	has := newest(s)
	for at := someTime + 1e9; at <= has; at += 1e9 {
		ids, batches := w.batches(at)
		n.append(at, ids, batches)
	}
	sample(t, s, n, has)
	ids, batches := w.batches(has + 1e9)
	for _, err := range []error{
		s.Append(has+1e9, ids, batches), s.Drop(1), s.Discard(1, measure.Interval{End: has}),
		s.Log("change", has, nil),
	} {
		if !errors.Is(err, errReadOnly) {
			t.Error(err)
		}
	}
}

// Corrupt bytes are reported, and nothing corrupt is answered as data.
func TestCorruptBytes(t *testing.T) {
	for round := range 5 {
		r := rand.New(rand.NewPCG(uint64(round), 3))
		dir := t.TempDir()
		s, n, w := filled(t, dir, Options{}, uint64(round))
		w.sets = w.sets[:2]
		at := w.run(t, s, n, someTime, 1500)
		s.Settle()
		if err := s.disk.pebble().Flush(); err != nil {
			t.Fatal(err)
		}
		s.Close()
		var tables []string
		_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".sst") {
				tables = append(tables, path)
			}
			return err
		})
		for range 1 + r.IntN(3) {
			path := tables[r.IntN(len(tables))]
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(dir, Options{})
		if err != nil {
			t.Logf("round %d: %v", round, err) // Pebble's own metadata of its tables
			continue
		}
		for _, d := range s.Datasets() {
			a, err := s.Ask(
				context.Background(),
				measure.Query{Stat: d.Stat.ID, By: []string{"device", "pid"}, Step: measure.Second},
			)
			if err != nil {
				continue
			}
			want, _ := n.ask(d.ID, a.Query, a.Start, a.Step, len(a.Elapsed), min(at, a.Over().End))
			for i, series := range a.Series {
				row := want[a.Label(i, 0)+"\x00"+a.Label(i, 1)]
				for c, v := range series.Values {
					if v == v && !alike(v, row[c].value) {
						t.Fatalf(
							"round %d: cell %d of %s is %v, want %v", round, c, a.Label(i, 1), v,
							row[c].value,
						)
					}
				}
			}
		}
		s.Close()
	}
}
