package changes

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/measure"
	"culprit/store"
)

// archives is a directory with a recording of culprit serve per story, and a file "times" with
// lines of: story, begin and end of the healthy time, begin and end of the fault, each as a time of
// today in UTC. With it the test writes testdata again.
var archives = flag.String("archives", "", "make testdata of the recordings in this directory") // table: set by the flag package

// storedTable is a table in testdata.
type storedTable struct {
	Stat measure.Stat `json:"stat"`
	By   []string     `json:"by"`
	Cut  bool         `json:"cut"`
	Rows []storedRow  `json:"rows"`
}

type storedRow struct {
	Key    []string   `json:"k"`
	Before []*float64 `json:"b"`
	After  []*float64 `json:"a"`
	In     [2]bool    `json:"in"` // before, after
}

// TestStories: between a healthy time and a fault of the lab, what changed first is what the fault
// is about. The recordings are of a machine that compiled other programs meanwhile.
func TestStories(t *testing.T) {
	for _, tt := range []struct {
		story string
		right []string // beginnings of statistics
		in    string   // in the query, or a value that explains the change
	}{
		{"dead-interface", []string{"net.device."}, "qfe0"},
		{"table-long", []string{"cache.entries"}, "tcp-"},
		{"peer-slow", []string{"tcp.flow."}, "10.2.0.103"},
		{"cache-purge", []string{"process.cpu", "cpu.stack.samples"}, "spooler"},
		{"link-saturated", []string{"tcp.flow.", "net.device."}, "bulk-copy"},
	} {
		t.Run(tt.story, func(t *testing.T) {
			path := filepath.Join("testdata", tt.story+".json.gz")
			if *archives != "" {
				writeStory(t, tt.story, path)
			}
			var all []Change
			for _, table := range readStory(t, path) {
				if c := table.change(); c != nil {
					all = append(all, *c)
				}
			}
			all = group(all)
			for i, c := range all[:min(len(all), 3)] {
				text := fmt.Sprint(c.Query, c.Explains)
				t.Logf("%d. %s %.4g -> %.4g, score %.2f %v", i+1, c.Query, c.Before, c.After,
					c.Score, c.Explains)
				for _, begin := range tt.right {
					if strings.HasPrefix(c.Statistic, begin) && strings.Contains(text, tt.in) {
						return
					}
				}
			}
			t.Errorf("none of the first three is of %v with %s", tt.right, tt.in)
		})
	}
}

// readStory reads a file of testdata.
func readStory(t *testing.T, path string) (out []*table) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(z)
	for d.More() {
		var s storedTable
		if err := d.Decode(&s); err != nil {
			t.Fatal(err)
		}
		one := &table{stat: s.Stat, unit: s.Stat.AnswerUnit(), by: s.By, cut: s.Cut}
		for _, r := range s.Rows {
			a, b := numbers(r.Before), numbers(r.After)
			one.rows = append(one.rows, row{r.Key, a, b, r.In[0], r.In[1]})
		}
		out = append(out, one)
	}
	if len(out) < 80 {
		t.Fatalf("%s has %d statistics", path, len(out))
	}
	return out
}

// numbers returns values with NaN for null.
func numbers(values []*float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		if out[i] = measure.NaN; v != nil {
			out[i] = *v
		}
	}
	return out
}

// stored returns values of three digits, with null for NaN.
func stored(values []float64) []*float64 {
	out := make([]*float64, len(values))
	for i, v := range values {
		if v == v {
			short, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
			out[i] = &short
		}
	}
	return out
}

// writeStory writes the tables of a story from its recording. Rows below 0.1 % of the largest are
// left out.
func writeStory(t *testing.T, story, path string) {
	t.Helper()
	before, after := sidesOf(t, story)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	e := json.NewEncoder(z)
	for _, st := range toCompare(before.Stats) {
		one, err := read(t.Context(), &st, before, after)
		if errors.Is(err, measure.ErrTooLarge) || err == nil && one == nil {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s := storedTable{Stat: one.stat, By: one.by, Cut: one.cut}
		s.Stat.Help, s.Stat.Program = "", ""
		most := 0.0
		size := func(r *row) float64 {
			return max(math.Abs(amount(r.before)), math.Abs(amount(r.after)))
		}
		for i := range one.rows {
			most = max(most, size(&one.rows[i]))
		}
		for i := range one.rows {
			if r := &one.rows[i]; size(r) >= most/1000 && size(r) > 0 {
				in := [2]bool{r.inBefore, r.inAfter}
				s.Rows = append(s.Rows, storedRow{r.key, stored(r.before), stored(r.after), in})
			}
		}
		if err := e.Encode(s); err != nil {
			t.Error(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// sidesOf returns the healthy time and the fault of a recorded story.
func sidesOf(t *testing.T, story string) (before, after *Side) {
	t.Helper()
	s, err := store.OpenReadOnly(filepath.Join(*archives, story, "archive"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	var stats []measure.Stat
	for _, d := range s.Datasets() {
		stats = append(stats, d.Stat)
	}
	f, err := os.Open(filepath.Join(*archives, "times"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) != 5 || words[0] != story {
			continue
		}
		var at [4]measure.Time
		for i, w := range words[1:] {
			when, err := time.Parse("2006-01-02 15:04:05", time.Now().UTC().Format("2006-01-02 ")+w)
			if err != nil {
				t.Fatal(err)
			}
			at[i] = measure.Time(when.UnixNano())
		}
		side := func(start, end measure.Time) *Side {
			over := measure.Interval{Start: start, End: end}
			return &Side{Reader: s, Stats: stats, Over: over, Fine: measure.Second}
		}
		return side(at[0], at[1]), side(at[2], at[3])
	}
	t.Fatalf("times has no line of %s", story)
	return nil, nil
}
