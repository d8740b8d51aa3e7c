package view

import (
	"slices"
	"strings"

	"culprit/measure"
)

// Frame holds the answers to the queries of a tool for one interval, or their means over several. A
// tool makes one table of it.
type Frame struct {
	Over    measure.Interval
	Answers []*measure.Answer
	Buffers *Buffers // memory for the table; nil: each table allocates its own
	MaxRows int      // 0: all. Otherwise a tool may read only MaxRows+1 rows of its own order
}

// Of returns the answer of a statistic; one without series if it was not asked.
func (f *Frame) Of(id measure.StatID) *measure.Answer {
	for _, a := range f.Answers {
		if a.Query.Stat == id {
			return a
		}
	}
	return notAsked
}

// notAsked has no series and covers no time. table: an answer is never changed
var notAsked = &measure.Answer{Elapsed: []measure.Span{0}}

// One returns the value of the first row whose fields have the given values, which are pairs of
// field and value. Without a row it is 0 for a sparse statistic that was measured, else NaN.
func (f *Frame) One(id measure.StatID, where ...string) float64 {
	a := f.Of(id)
	wanted := newFilter(a, where)
	for i := range a.Series {
		if wanted.has(i) {
			return a.Series[i].Values[0]
		}
	}
	if a.Sparse && a.Elapsed[0] > 0 {
		return 0
	}
	return measure.NaN
}

// Counter returns the value of a counter (protocol.counter) of a namespace; NaN if there is none.
// There are hundreds, in the same order each time, so it first looks at the previous index.
func (f *Frame) Counter(a *measure.Answer, ns, name string) float64 {
	protocol, word, _ := strings.Cut(name, ".")
	inNS, inProtocol, inWord := a.FieldIndex(
		"netns",
	), a.FieldIndex(
		"protocol",
	), a.FieldIndex(
		"counter",
	)
	is := func(i int) bool {
		return (inNS < 0 && ns == "" || inNS >= 0 && a.Label(i, inNS) == ns) &&
			a.Label(i, inWord) == word &&
			a.Label(i, inProtocol) == protocol
	}
	if len(a.Series) == 0 || inProtocol < 0 || inWord < 0 {
		return measure.NaN
	}
	place := [3]string{string(a.Query.Stat), ns, name}
	if f.Buffers != nil {
		if i, ok := f.Buffers.counterAt[place]; ok && i < len(a.Series) && is(i) {
			return a.Series[i].Values[0]
		}
	}
	for i := range a.Series {
		if is(i) {
			if f.Buffers != nil {
				if f.Buffers.counterAt == nil || len(f.Buffers.counterAt) > maxWords {
					f.Buffers.counterAt = map[[3]string]int{}
				}
				f.Buffers.counterAt[place] = i
			}
			return a.Series[i].Values[0]
		}
	}
	return measure.NaN
}

// Losses returns the losses of all answers.
func (f *Frame) Losses() []measure.Loss {
	var out []measure.Loss
	for _, a := range f.Answers {
		out = append(out, a.Loss...)
	}
	return out
}

// Notes returns the notes of all answers, each once, except those of statistics whose column needs
// a terminal wider than width.
func (f *Frame) Notes(wide map[measure.StatID]int, width int) []string {
	var out []string
	for _, a := range f.Answers {
		if len(a.Notes) == 0 || wide[a.Query.Stat] > width {
			continue
		}
		for _, n := range a.Notes {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// filter selects the rows of one answer by the values of at most four fields.
type filter struct {
	a       *measure.Answer
	n       int
	columns [4]int // -1: the answer has no such field, and its word is ""
	words   [4]string
	hit     [4]measure.Label // 1 + the label that matched last; 0: none yet
	miss    [4]measure.Label // 1 + the label that did not match last; 0: none yet
}

// newFilter makes a filter of at most four pairs of field and value.
func newFilter(a *measure.Answer, where []string) filter {
	f := filter{a: a, n: len(where) / 2}
	for k := range f.n {
		f.columns[k], f.words[k] = a.FieldIndex(where[2*k]), where[2*k+1]
	}
	return f
}

// has reports whether series i has all values.
func (f *filter) has(i int) bool {
	for k := range f.n {
		c := f.columns[k]
		if c < 0 {
			if f.words[k] != "" {
				return false
			}
			continue
		}
		switch l := f.a.Series[i].Key[c]; {
		case l+1 == f.hit[k]:
		case l+1 == f.miss[k]:
			return false
		case f.a.Labels[l] == f.words[k]:
			f.hit[k] = l + 1
		default:
			f.miss[k] = l + 1
			return false
		}
	}
	return true
}

// NaturalLess reports whether a sorts before b. Digits are compared as numbers: eth2 before eth10.
func NaturalLess(a, b string) bool {
	for a != "" && b != "" {
		na, nb := digits(a), digits(b)
		if na > 0 && nb > 0 {
			x, y := strings.TrimLeft(a[:na], "0"), strings.TrimLeft(b[:nb], "0")
			if len(x) != len(y) {
				return len(x) < len(y)
			}
			if x != y {
				return x < y
			}
			a, b = a[na:], b[nb:]
			continue
		}
		if a[0] != b[0] {
			return a[0] < b[0]
		}
		a, b = a[1:], b[1:]
	}
	return len(a) < len(b)
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
