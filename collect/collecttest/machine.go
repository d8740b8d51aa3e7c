package collecttest

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

	"culprit/collect"
	"culprit/kernel"
	"culprit/measure"
)

// Machine is a directory of files instead of /proc and /sys, with one collector that reads it.
type Machine struct {
	T       *testing.T
	Dir     string
	Env     collect.Env
	Out     *collect.Out
	Reading collect.Reading
	now     time.Time // time of the latest reading
}

// EmptyMachine returns a machine without files and without a collector.
func EmptyMachine(t *testing.T) *Machine {
	m := &Machine{T: t, Dir: t.TempDir(), now: time.Now()}
	m.Env.Root = kernel.Root{Proc: filepath.Join(m.Dir, "proc"), Sys: filepath.Join(m.Dir, "sys")}
	return m
}

// NewMachine writes the files and opens the collector with all its statistics wanted. The names of
// the files begin with proc/ or sys/.
func NewMachine(t *testing.T, c collect.Collector, files map[string]string) *Machine {
	t.Helper()
	m := EmptyMachine(t)
	m.Put(files)
	m.Open(c)
	return m
}

// Open opens the collector with all its statistics wanted. The end of the test closes it.
func (m *Machine) Open(c collect.Collector) {
	m.T.Helper()
	if err := m.TryOpen(c); err != nil {
		m.T.Fatal(err)
	}
	m.T.Cleanup(m.Reading.Close)
}

// TryOpen is Open for a collector that may refuse. The caller closes m.Reading.
func (m *Machine) TryOpen(c collect.Collector) (err error) {
	m.Out = collect.NewOut(c.Stats(), collect.NewDictionary(), false)
	m.Reading, err = c.Open(&m.Env, WantAll(c))
	return err
}

// WantAll returns a Want of all statistics of the collector with all their fields.
func WantAll(c collect.Collector) collect.Want {
	w := collect.Want{}
	for _, st := range c.Stats() {
		w[st.ID] = map[string]bool{}
		for _, f := range st.Fields {
			w[st.ID][f.Name] = true
		}
	}
	return w
}

// Put writes files in place, so that an open file changes.
func (m *Machine) Put(files map[string]string) {
	m.T.Helper()
	for name, text := range files {
		path := filepath.Join(m.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			m.T.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			m.T.Fatal(err)
		}
	}
}

// Read takes a reading, one second after the previous one, and returns its rows as RowsOf does.
func (m *Machine) Read(first bool) map[string]float64 {
	m.T.Helper()
	m.Start(first)
	if err := m.Reading.Read(m.Out); err != nil {
		m.T.Fatal(err)
	}
	return RowsOf(m.T, m.Out)
}

// Start begins a reading, one second after the previous one.
func (m *Machine) Start(first bool) {
	m.now = m.now.Add(time.Second)
	m.Out.Start(first, m.now)
}

// RowsOf finishes the reading and returns its rows, keyed by "statistic|label|label".
func RowsOf(t testing.TB, out *collect.Out) map[string]float64 {
	t.Helper()
	rows := map[string]float64{}
	for _, b := range out.Finish(nil) {
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

// Expect compares the rows whose key begins with prefix with the wanted ones.
func Expect(t *testing.T, rows map[string]float64, prefix string, want map[string]float64) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if w, ok := want[k]; strings.HasPrefix(k, prefix) && (!ok || !Near(rows[k], w)) {
			t.Errorf(
				"%s = %v, want %s", k, rows[k],
				map[bool]string{true: fmt.Sprint(w), false: "no row"}[ok],
			)
		}
	}
	for k, w := range want {
		if _, ok := rows[k]; !ok {
			t.Errorf("no row %s, want %v", k, w)
		}
	}
}

// Near reports whether a and b are equal within rounding. NaN is near NaN.
func Near(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || math.Abs(a-b) <= 1e-9*math.Abs(b)
}

// Notes returns all notes of the latest reading, a line for each.
func (m *Machine) Notes() string {
	var all []string
	for _, t := range m.Out.Tables() {
		all = append(all, t.Batch().Notes...)
	}
	return strings.Join(all, "\n")
}

// BenchmarkEach measures one reading of each collector.
func BenchmarkEach(b *testing.B, collectors ...collect.Collector) {
	for _, c := range collectors {
		b.Run(fmt.Sprintf("%T", c), func(b *testing.B) { BenchmarkRead(b, c) })
	}
}

// BenchmarkRead measures one reading of the running kernel with the statistics, or with all of the
// collector if none is named.
func BenchmarkRead(b *testing.B, c collect.Collector, stats ...measure.StatID) {
	b.Helper()
	env := collect.Env{}
	want, mine := WantAll(c), c.Stats()
	if len(stats) > 0 {
		for id := range want {
			if !slices.Contains(stats, id) {
				delete(want, id)
			}
		}
		mine = slices.DeleteFunc(
			mine, func(st measure.Stat) bool { return !slices.Contains(stats, st.ID) },
		)
	}
	r, err := c.Open(&env, want)
	if errors.Is(err, measure.ErrUnsupported) {
		b.Skipf("needs: kernel feature %T: %v", c, err)
	}
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	out := collect.NewOut(mine, collect.NewDictionary(), false)
	out.Start(true, time.Now())
	if err := r.Read(out); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	rows := 0
	var batches []*measure.Batch
	for b.Loop() {
		out.Start(false, time.Now())
		if err := r.Read(out); err != nil {
			b.Fatal(err)
		}
		batches = out.Finish(batches[:0])
		for _, batch := range batches {
			rows += batch.Rows()
		}
	}
	b.ReportMetric(float64(rows)/float64(b.N), "rows")
}
