package rules

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"culprit/measure"
)

// A canned machine is a text file. Lines:
//
//	# anything                      a comment
//	from FILE                       start with all that FILE has (path beside this file)
//	cells N | step 1s               the grid; 10 cells of a second by default
//	expect ID [severity]            a finding that must be there; there must be no other
//	expect nothing                  no finding at all
//	unchecked RULE                  the rule must report that it could not check
//	fine RESOURCE                   the resource must be ruled out
//	doubtful RESOURCE               the resource must be in doubt
//	STATISTIC                       its rows follow; they replace earlier ones
//	STATISTIC +                     its rows follow; they are added, or replace those with the
//	                                same words
//	STATISTIC ! reason              refused, with the reason
//	STATISTIC ? note                not measured, with the reason
//	STATISTIC none                  measured, no rows
//	STATISTIC never                 not measured yet
//	  word word ... | values        a row: the words of the statistic's fields in their order; ""
//	                                is the empty word; a stack is its functions, callers first,
//	                                separated by semicolons
//
// A row of a distribution has one more word, a value, and its numbers are how often each cell has
// that value.
//
// Values are rates of deltas, or levels, one per cell: a number, "-" for not measured, x*n for n
// times x, a..b*n for n values from a to b. The last one is repeated to the end.
type canned struct {
	cells    int
	step     measure.Span
	stats    map[string]*cannedStat
	expect   map[string]string
	nothing  bool
	silent   []string
	fine     []string
	doubtful []string
	contract map[string]measure.Stat
}

type cannedStat struct {
	rows  []cannedRow
	err   string
	notes []string
	never bool
}

type cannedRow struct {
	words  []string
	values []string
}

// contract reads testdata/statistics.txt: "id kind unit fold [fields]".
func contract(t testing.TB) map[string]measure.Stat {
	t.Helper()
	b, err := os.ReadFile("testdata/statistics.txt")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]measure.Kind{"Delta": measure.Delta, "Level": measure.Level,
		"Dist": measure.Dists}
	folds := map[string]measure.Fold{"Sum": measure.Sum, "Max": measure.Max, "Mean": measure.Mean,
		"Min": measure.Min}
	out := map[string]measure.Stat{}
	for n, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) != 5 || kinds[f[1]] == 0 || !strings.HasPrefix(f[4], "[") {
			t.Fatalf("statistics.txt:%d: %s", n+1, line)
		}
		fold, ok := folds[f[3]]
		if !ok {
			t.Fatalf("statistics.txt:%d: fold %s", n+1, f[3])
		}
		s := measure.Stat{ID: measure.StatID(f[0]), Kind: kinds[f[1]], Unit: measure.Unit(f[2]),
			Fold: fold}
		for _, name := range strings.Split(strings.Trim(f[4], "[]"), ",") {
			if name != "" {
				f := measure.Field{Name: name, Type: measure.Word}
				if s.ID == measure.StackSamples && (name == "kernel" || name == "user") {
					f.Type = measure.Stack
				}
				s.Fields = append(s.Fields, f)
			}
		}
		out[f[0]] = s
	}
	return out
}

func readCanned(t testing.TB, file string, c *canned) *canned {
	t.Helper()
	if c == nil {
		c = &canned{cells: 10, step: measure.Second, stats: map[string]*cannedStat{},
			expect: map[string]string{}, contract: contract(t)}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return readLines(t, file, strings.Split(string(b), "\n"), c)
}

// readLines reads the lines of a canned machine into c; file is for messages and for "from".
func readLines(t testing.TB, file string, all []string, c *canned) *canned {
	t.Helper()
	var err error
	var now *cannedStat
	var nowID string
	for n, line := range all {
		bad := func(why string) { t.Fatalf("%s:%d: %s: %s", file, n+1, why, line) }
		words := quotedFields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		if line[0] == ' ' || line[0] == '\t' {
			if now == nil {
				bad("a row of nothing")
			}
			row := cannedRow{}
			i := 0
			for i < len(words) && words[i] != "|" {
				row.words = append(row.words, words[i])
				i++
			}
			want := len(c.contract[nowID].Fields)
			if c.contract[nowID].Kind == measure.Dists {
				want++
			}
			if i == len(words) || len(row.words) != want {
				bad(fmt.Sprintf("want words for %v, then | and values", c.contract[nowID].Fields))
			}
			row.values = words[i+1:]
			replaced := false
			for j := range now.rows {
				if strings.Join(now.rows[j].words, "\x00") == strings.Join(row.words, "\x00") {
					now.rows[j], replaced = row, true
				}
			}
			if !replaced {
				now.rows = append(now.rows, row)
			}
			continue
		}
		rest := words[1:]
		switch words[0] {
		case "from":
			readCanned(t, filepath.Join(filepath.Dir(file), rest[0]), c)
			c.expect, c.nothing, c.silent, c.fine, c.doubtful = map[string]string{}, false, nil,
				nil, nil
		case "cells":
			c.cells, err = strconv.Atoi(rest[0])
			if err != nil {
				bad("number")
			}
		case "step":
			if rest[0] != "1s" {
				n, err := strconv.Atoi(strings.TrimSuffix(rest[0], "s"))
				if err != nil {
					bad("step")
				}
				c.step = measure.Span(n) * measure.Second
			}
		case "expect":
			switch {
			case rest[0] == "nothing":
				c.nothing = true
			case len(rest) > 1:
				c.expect[rest[0]] = rest[1]
			default:
				c.expect[rest[0]] = ""
			}
		case "unchecked":
			c.silent = append(c.silent, rest...)
		case "doubtful":
			c.doubtful = append(c.doubtful, rest...)
		case "fine":
			c.fine = append(c.fine, rest...)
		default:
			if _, ok := c.contract[words[0]]; !ok {
				bad("no such statistic")
			}
			nowID = words[0]
			if len(rest) == 0 || rest[0] != "+" || c.stats[nowID] == nil {
				c.stats[nowID] = &cannedStat{}
			}
			now = c.stats[nowID]
			switch {
			case len(rest) == 0 || rest[0] == "+" || rest[0] == "none":
			case rest[0] == "!":
				now.err = strings.Join(rest[1:], " ")
			case rest[0] == "?":
				now.notes, now.never = []string{strings.Join(rest[1:], " ")}, true
			case rest[0] == "never":
				now.never = true
			default:
				bad("unknown")
			}
		}
	}
	return c
}

// quotedFields splits a line at white space; "..." is one word.
func quotedFields(line string) []string {
	var out []string
	for {
		line = strings.TrimLeft(line, " \t")
		if line == "" {
			return out
		}
		if line[0] == '"' {
			if q, err := strconv.QuotedPrefix(line); err == nil {
				w, _ := strconv.Unquote(q)
				out = append(out, w)
				line = line[len(q):]
				continue
			}
		}
		w, rest, _ := strings.Cut(line, " ")
		out = append(out, w)
		line = rest
	}
}

func (r cannedRow) series(cells int) ([]float64, error) {
	var v []float64
	for _, w := range r.values {
		n := 1
		if a, b, ok := strings.Cut(w, "*"); ok {
			var err error
			if n, err = strconv.Atoi(b); err != nil {
				return nil, err
			}
			w = a
		}
		a, b, ramp := strings.Cut(w, "..")
		x, err := cannedNumber(a)
		if err != nil {
			return nil, err
		}
		y := x
		if ramp {
			if y, err = cannedNumber(b); err != nil {
				return nil, err
			}
		}
		for i := range n {
			z := x
			if n > 1 {
				z = x + (y-x)*float64(i)/float64(n-1)
			}
			v = append(v, z)
		}
	}
	for len(v) < cells && len(v) > 0 {
		v = append(v, v[len(v)-1])
	}
	return v[:cells], nil
}

func cannedNumber(w string) (float64, error) {
	if w == "-" {
		return math.NaN(), nil
	}
	return strconv.ParseFloat(w, 64)
}

// cannedStart is the begin of every canned time range.
const cannedStart = measure.Time(1767323045 * 1e9) // 2026-01-02T03:04:05Z

// Ask folds and filters the canned rows like the dataset.
func (c *canned) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	st, ok := c.contract[string(q.Stat)]
	if !ok {
		return nil, &measure.Diagnostic{Text: q.String(), Code: "unknown-statistic",
			Message: "unknown statistic " + string(q.Stat)}
	}
	var by []int
	for _, f := range q.By {
		_, i := st.Field(f)
		if i < 0 {
			return nil, &measure.Diagnostic{Text: q.String(), Code: "unknown-field",
				Message: string(q.Stat) + " has no field " + f}
		}
		by = append(by, i)
	}
	for _, w := range q.Where {
		if _, i := st.Field(w.Field); i < 0 {
			return nil, &measure.Diagnostic{Text: q.String(), Code: "unknown-field",
				Message: string(q.Stat) + " has no field " + w.Field}
		}
	}
	s := c.stats[string(q.Stat)]
	if s == nil {
		s = &cannedStat{never: true}
	}
	if s.err != "" {
		return nil, fmt.Errorf("%w: %s", measure.ErrDenied, s.err)
	}
	a := &measure.Answer{Query: q, Kind: st.Kind, Unit: st.AnswerUnit(), Start: cannedStart,
		Step: c.step, Notes: s.notes, Stacks: st.Stacks(q.By)}
	if a.Stacks != nil {
		a.Frames = []measure.Frame{{Parent: -1}} // the empty stack
	}
	for range c.cells {
		e := c.step
		if s.never {
			e = 0
		}
		a.Elapsed = append(a.Elapsed, e)
	}
	if s.never {
		return a, nil
	}
	index := map[string]int{}
	labels := map[string]measure.Label{}
	counts := map[int][]float64{}
rows:
	for _, r := range s.rows {
		for _, w := range q.Where {
			_, i := st.Field(w.Field)
			if !w.Match(r.words[i]) {
				continue rows
			}
		}
		values, err := r.series(c.cells)
		if err != nil {
			return nil, fmt.Errorf("%s %v: %w", q.Stat, r.words, err)
		}
		key := ""
		var words []string
		for _, i := range by {
			words = append(words, r.words[i])
			key += r.words[i] + "\x00"
		}
		at, ok := index[key]
		if !ok {
			at = len(a.Series)
			index[key] = at
			ser := measure.Series{Values: make([]float64, c.cells)}
			for i := range ser.Values {
				ser.Values[i] = math.NaN()
			}
			for i, w := range words {
				if i < len(a.Stacks) && a.Stacks[i] {
					ser.Key = append(ser.Key, grown(a, w))
					continue
				}
				if _, ok := labels[w]; !ok {
					labels[w] = measure.Label(len(a.Labels))
					a.Labels = append(a.Labels, w)
				}
				ser.Key = append(ser.Key, labels[w])
			}
			a.Series = append(a.Series, ser)
			counts[at] = make([]float64, c.cells)
		}
		if st.Kind == measure.Dists {
			if err := addDists(&a.Series[at], r.words[len(st.Fields)], values); err != nil {
				return nil, fmt.Errorf("%s %v: %w", q.Stat, r.words, err)
			}
			continue
		}
		for i, v := range values {
			old := a.Series[at].Values[i]
			if v != v {
				continue
			}
			counts[at][i]++
			switch {
			case old != old:
				a.Series[at].Values[i] = v
			case st.Fold == measure.Sum:
				a.Series[at].Values[i] = old + v
			case st.Fold == measure.Max:
				a.Series[at].Values[i] = math.Max(old, v)
			case st.Fold == measure.Min:
				a.Series[at].Values[i] = math.Min(old, v)
			case st.Fold == measure.Mean:
				a.Series[at].Values[i] = old + (v-old)/counts[at][i]
			}
		}
	}
	return a, nil
}

// addDists adds a value to the distribution of each cell, counts[c] times.
func addDists(s *measure.Series, value string, counts []float64) error {
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return err
	}
	if s.Dists() == nil {
		s.Values = nil
		s.SetDists(make([]measure.Dist, len(counts)))
	}
	for c, n := range counts {
		d := &s.Dists()[c]
		d.Base = 2
		d.Add(uint64(v), uint64(math.Round(n)))
	}
	return nil
}

// grown returns the frame of a stack, and adds missing frames to the answer.
func grown(a *measure.Answer, stack string) measure.Label {
	at := -1
	if stack == "" {
		return 0
	}
	for _, name := range strings.Split(stack, ";") {
		next := measure.Frame{Symbol: name, Parent: int32(at)}
		if at = slices.Index(a.Frames, next); at < 0 {
			at = len(a.Frames)
			a.Frames = append(a.Frames, next)
		}
	}
	return measure.Label(at)
}

func (c *canned) over() measure.Interval {
	return measure.Interval{Start: cannedStart,
		End: cannedStart.Add(c.step * measure.Span(c.cells))}
}
