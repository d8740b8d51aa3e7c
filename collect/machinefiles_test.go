package collect

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/measure"
)

// machine is a made-up machine: a directory of files in place of /proc and /sys, and one collector that reads it.
type machine struct {
	t       *testing.T
	dir     string
	env     Env
	out     *Out
	reading Reading
	now     time.Time // of the latest reading
}

// emptyMachine returns a machine without files and without a collector.
func emptyMachine(t *testing.T) *machine {
	m := &machine{t: t, dir: t.TempDir(), now: time.Now()}
	m.env.Root = kernel.Root{Proc: filepath.Join(m.dir, "proc"), Sys: filepath.Join(m.dir, "sys")}
	return m
}

// newMachine puts the files, whose names begin with proc/ or sys/, and opens the collector with all its statistics wanted.
func newMachine(t *testing.T, c Collector, files map[string]string) *machine {
	t.Helper()
	m := emptyMachine(t)
	m.put(files)
	m.open(c)
	return m
}

// open opens the collector with all its statistics wanted, for as long as the test runs.
func (m *machine) open(c Collector) {
	m.t.Helper()
	if err := m.tryOpen(c); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(m.reading.Close)
}

// tryOpen is open for a collector that may refuse, and that the caller closes.
func (m *machine) tryOpen(c Collector) (err error) {
	m.out = newOut(c.Stats(), newDictionary(), false)
	m.reading, err = c.Open(&m.env, wantAll(c))
	return err
}

// wantAll wants each statistic of a collector, with all its fields.
func wantAll(c Collector) Want {
	w := Want{}
	for _, st := range c.Stats() {
		w[st.ID] = map[string]bool{}
		for _, f := range st.Fields {
			w[st.ID][f.Name] = true
		}
	}
	return w
}

// put writes files in place, so that those which are open change.
func (m *machine) put(files map[string]string) {
	m.t.Helper()
	for name, text := range files {
		path := filepath.Join(m.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			m.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			m.t.Fatal(err)
		}
	}
}

// read takes a reading, as if a second had passed since the one before, and gives the rows as "stat label label": value.
func (m *machine) read(first bool) map[string]float64 {
	m.t.Helper()
	m.start(first)
	if err := m.reading.Read(m.out); err != nil {
		m.t.Fatal(err)
	}
	return rowsOf(m.t, m.out)
}

// start begins a reading, a second after the one before.
func (m *machine) start(first bool) {
	m.now = m.now.Add(time.Second)
	m.out.start(first, m.now)
}

func rowsOf(t testing.TB, out *Out) map[string]float64 {
	t.Helper()
	rows := map[string]float64{}
	for _, b := range out.finish(nil) {
		for i := range b.Rows() {
			words := []string{string(b.Stat)}
			for _, l := range b.Key(i) {
				words = append(words, b.Labels[l])
			}
			key := strings.Join(words, "|")
			if _, twice := rows[key]; twice {
				t.Errorf("row %s comes twice", key)
			}
			rows[key] = b.Values[i]
		}
	}
	return rows
}

// expect compares the rows whose key begins with prefix with what is wanted.
func expect(t *testing.T, rows map[string]float64, prefix string, want map[string]float64) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if w, ok := want[k]; strings.HasPrefix(k, prefix) && (!ok || !near(rows[k], w)) {
			t.Errorf("%s = %v, want %s", k, rows[k], map[bool]string{true: fmt.Sprint(w), false: "no row"}[ok])
		}
	}
	for k, w := range want {
		if _, ok := rows[k]; !ok {
			t.Errorf("no row %s, want %v", k, w)
		}
	}
}

func near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*math.Abs(b)
}

// notes gives all notes of the latest reading.
func (m *machine) notes() string {
	var all []string
	for _, t := range m.out.Tables() {
		all = append(all, t.Batch().Notes...)
	}
	return strings.Join(all, "\n")
}

// benchmarkEach measures one reading of each collector.
func benchmarkEach(b *testing.B, collectors ...Collector) {
	for _, c := range collectors {
		b.Run(fmt.Sprintf("%T", c), func(b *testing.B) { benchmarkRead(b, c) })
	}
}

// benchmarkRead measures one reading of the running kernel, everything wanted that filter lets through (nil: all).
func benchmarkRead(b *testing.B, c Collector, stats ...measure.StatID) {
	b.Helper()
	env := Env{}
	want, mine := wantAll(c), c.Stats()
	if len(stats) > 0 {
		for id := range want {
			if !slices.Contains(stats, id) {
				delete(want, id)
			}
		}
		mine = slices.DeleteFunc(mine, func(st measure.Stat) bool { return !slices.Contains(stats, st.ID) })
	}
	r, err := c.Open(&env, want)
	if errors.Is(err, measure.ErrUnsupported) {
		b.Skipf("needs: kernel feature %T: %v", c, err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	out := newOut(mine, newDictionary(), false)
	out.start(true, time.Now())
	if err := r.Read(out); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	rows := 0
	var batches []*measure.Batch
	for b.Loop() {
		out.start(false, time.Now())
		if err := r.Read(out); err != nil {
			b.Fatal(err)
		}
		batches = out.finish(batches[:0])
		for _, batch := range batches {
			rows += batch.Rows()
		}
	}
	b.ReportMetric(float64(rows)/float64(b.N), "rows")
}
