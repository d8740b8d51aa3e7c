package bpftrace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// A Row is an element of a map as it is printed.
type Row struct {
	Key   []Value
	Value Value // of a plain map, count, sum, min, max
	// of avg and stats
	Count, Total int64
	// of hist: values below 0, 0, 1, 2 to 3, ...; of lhist: below the least, each step, above
	Buckets []uint64
	Index   int // of the row's key, for a caller that sets Key later
}

// A Table is a map with its elements.
type Table struct {
	Name string // without @
	Func string // as Map.Func
	Rows []Row  // sorted by Sort
	// of lhist
	Least, Step int64
	Bits        int // of hist, as Map.Bits
	// the values are divided by it; 0: 1
	Div int64
}

// Sort sorts the rows as bpftrace prints them: numbers by value, other values by key. Rows of equal
// value are sorted by key.
func (t *Table) Sort() {
	slices.SortFunc(t.Rows, func(a, b Row) int {
		return cmp.Or(t.compare(&a, &b), compareKeys(a.Key, b.Key))
	})
}

func (t *Table) compare(a, b *Row) int {
	switch t.Func {
	case "hist", "lhist":
		return cmp.Compare(sum(a.Buckets), sum(b.Buckets))
	case "avg", "stats":
		return cmp.Compare(average(a), average(b))
	}
	if a.Value.IsText || a.Value.Parts != nil || b.Value.IsText || b.Value.Parts != nil {
		return 0
	}
	return compareValues(a.Value, b.Value)
}

func sum(buckets []uint64) (n uint64) {
	for _, b := range buckets {
		n += b
	}
	return n
}

func average(r *Row) int64 {
	if r.Count == 0 {
		return 0
	}
	return r.Total / r.Count
}

func compareKeys(a, b []Value) int {
	for i := range min(len(a), len(b)) {
		if n := compareValues(a[i], b[i]); n != 0 {
			return n
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareValues(a, b Value) int {
	switch {
	case a.IsText || b.IsText:
		return strings.Compare(a.Text, b.Text)
	case a.Parts != nil:
		return compareKeys(a.Parts, b.Parts)
	case a.Unsigned && b.Unsigned:
		return cmp.Compare(uint64(a.Number), uint64(b.Number))
	}
	return cmp.Compare(a.Number, b.Number)
}

// Top keeps the last n rows; 0 keeps all.
func (t *Table) Top(n int) {
	if n > 0 && len(t.Rows) > n {
		t.Rows = t.Rows[len(t.Rows)-n:]
	}
}

// TopByValue removes the rows whose values show that they are not among the last n of a sorted
// table: all that are less than n others. Rows need no keys. It removes none when n is 0.
func (t *Table) TopByValue(n int) {
	if n <= 0 || len(t.Rows) <= n {
		return
	}
	sorted := slices.Clone(t.Rows)
	slices.SortFunc(sorted, func(a, b Row) int { return t.compare(&a, &b) })
	least := &sorted[len(sorted)-n]
	t.Rows = slices.DeleteFunc(t.Rows, func(r Row) bool { return t.compare(&r, least) < 0 })
}

// divided returns a number divided by Div.
func (t *Table) divided(v Value) Value {
	if t.Div > 1 && !v.IsText && v.Parts == nil {
		if v.Unsigned {
			v.Number = int64(uint64(v.Number) / uint64(t.Div))
		} else {
			v.Number /= t.Div
		}
	}
	return v
}

// AppendText appends the map as bpftrace prints it.
func (t *Table) AppendText(out []byte) []byte {
	for i := range t.Rows {
		r := &t.Rows[i]
		out = append(append(out, '@'), t.Name...)
		if len(r.Key) > 0 {
			out = append(out, '[')
			for k, v := range r.Key {
				if k > 0 {
					out = append(out, ", "...)
				}
				out = append(out, v.KeyString()...)
			}
			out = append(out, ']')
		}
		out = append(out, ": "...)
		switch t.Func {
		case "hist", "lhist":
			out = append(out, '\n')
			out = t.appendBuckets(out, r.Buckets)
			out = append(out, '\n')
			continue
		case "avg":
			out = strconv.AppendInt(out, average(r)/max(t.Div, 1), 10)
		case "stats":
			out = append(out, "count "...)
			out = strconv.AppendInt(out, r.Count, 10)
			out = append(out, ", average "...)
			out = strconv.AppendInt(out, average(r)/max(t.Div, 1), 10)
			out = append(out, ", total "...)
			out = strconv.AppendInt(out, r.Total/max(t.Div, 1), 10)
		default:
			out = append(out, t.divided(r.Value).String()...)
		}
		out = append(out, '\n')
	}
	switch t.Func {
	case "hist", "lhist":
		if len(t.Rows) > 0 {
			return out
		}
	case "avg", "stats":
	default:
		if len(t.Rows) > 0 {
			return out
		}
	}
	return append(out, '\n')
}

// used returns the first and the last bucket that is not 0, and the highest count; last is -1 when
// all are 0.
func used(buckets []uint64) (first, last int, most uint64) {
	last = -1
	for i, n := range buckets {
		if n == 0 {
			continue
		}
		if last < 0 {
			first = i
		}
		last, most = i, max(most, n)
	}
	return first, last, most
}

// barWidth is the width of the bar of the highest bucket.
const barWidth = 52

// appendBuckets appends the rows of a distribution.
func (t *Table) appendBuckets(out []byte, buckets []uint64) []byte {
	first, last, most := used(buckets)
	for i := first; i <= last; i++ {
		label := t.label(i, len(buckets))
		out = append(out, label...)
		out = append(out, strings.Repeat(" ", max(0, 16-len(label)))...)
		n := strconv.FormatUint(buckets[i]/uint64(max(t.Div, 1)), 10)
		out = append(out, strings.Repeat(" ", max(0, 8-len(n)))...)
		out = append(out, n...)
		bar := int(float32(buckets[i]) / float32(most) * barWidth)
		out = append(out, " |"...)
		out = append(out, strings.Repeat("@", bar)...)
		out = append(out, strings.Repeat(" ", barWidth-bar)...)
		out = append(out, "|\n"...)
	}
	return out
}

// label returns the range of bucket i of n.
func (t *Table) label(i, n int) string {
	if t.Func == "hist" {
		switch {
		case i == 0:
			return "(..., 0)"
		case i <= 2<<t.Bits:
			return "[" + strconv.Itoa(i-1) + "]"
		}
		return "[" + t.limitText(i-1) + ", " + t.limitText(i) + ")"
	}
	at := t.Least + int64(i-1)*t.Step
	switch i {
	case 0:
		return "(..., " + round(t.Least) + ")"
	case n - 1:
		return "[" + round(at) + ", ...)"
	}
	return "[" + round(at) + ", " + round(at+t.Step) + ")"
}

// limit returns the least value of bucket n+1 of hist, for n from 2^Bits on: a multiple of its
// width, which is 2 to the power of width.
func (t *Table) limit(n int) (multiple int64, width int) {
	parts := 1 << t.Bits
	return int64(parts + n&(parts-1)), n>>t.Bits - 1
}

// limitText returns limit as text: 512, 1K, 2M. The suffix follows from the width. Without Bits the
// last suffix is T, as in bpftrace 0.17.
func (t *Table) limitText(n int) string {
	multiple, width := t.limit(n)
	suffixes := [...]string{"", "K", "M", "G", "T", "P", "E"}
	i := width / 10
	if t.Bits == 0 {
		i = min(i, 4)
	}
	return strconv.FormatInt(multiple<<(width-10*i), 10) + suffixes[i]
}

// round returns a limit of lhist: whole multiples of 1024 have a suffix.
func round(n int64) string {
	switch {
	case n == 0:
		return "0"
	case n%(1<<20) == 0:
		return strconv.FormatInt(n>>20, 10) + "M"
	case n%(1<<10) == 0:
		return strconv.FormatInt(n>>10, 10) + "K"
	}
	return strconv.FormatInt(n, 10)
}

// AppendJSON appends the map as a line of JSON.
func (t *Table) AppendJSON(out []byte) []byte {
	kind := "map"
	switch t.Func {
	case "hist", "lhist":
		kind = "hist"
	case "avg", "stats":
		kind = "stats"
	}
	if len(t.Rows) == 0 {
		return out
	}
	out = append(out, `{"type": "`+kind+`", "data": {`...)
	out = appendString(out, "@"+t.Name)
	out = append(out, ": "...)
	keyed := len(t.Rows[0].Key) > 0
	if keyed {
		out = append(out, '{')
	}
	for i := range t.Rows {
		r := &t.Rows[i]
		if i > 0 {
			out = append(out, ", "...)
		}
		if keyed {
			var key []string
			for _, v := range r.Key {
				key = append(key, v.KeyString())
			}
			out = appendString(out, strings.Join(key, ","))
			out = append(out, ": "...)
		}
		out = t.appendRowJSON(out, r)
	}
	if keyed {
		out = append(out, '}')
	}
	return append(out, "}}\n"...)
}

func (t *Table) appendRowJSON(out []byte, r *Row) []byte {
	switch t.Func {
	case "hist", "lhist":
		return t.appendBucketsJSON(out, r.Buckets)
	case "avg":
		return strconv.AppendInt(out, average(r)/max(t.Div, 1), 10)
	case "stats":
		out = append(out, `{"count": `...)
		out = strconv.AppendInt(out, r.Count, 10)
		out = append(out, `, "average": `...)
		out = strconv.AppendInt(out, average(r)/max(t.Div, 1), 10)
		out = append(out, `, "total": `...)
		return append(strconv.AppendInt(out, r.Total/max(t.Div, 1), 10), '}')
	}
	return t.divided(r.Value).AppendJSON(out)
}

// appendBucketsJSON appends the buckets between the first and the last that are not 0.
func (t *Table) appendBucketsJSON(out []byte, buckets []uint64) []byte {
	out = append(out, '[')
	first, last, _ := used(buckets)
	field := func(name string, n int64) {
		out = append(out, `"`+name+`": `...)
		out = append(strconv.AppendInt(out, n, 10), ", "...)
	}
	for i := first; i <= last; i++ {
		if i > first {
			out = append(out, ", "...)
		}
		out = append(out, '{')
		least, most := t.limits(i)
		if i > 0 {
			field("min", least)
		}
		if t.Func == "hist" || i < len(buckets)-1 {
			field("max", most)
		}
		out = append(out, `"count": `...)
		out = append(strconv.AppendUint(out, buckets[i]/uint64(max(t.Div, 1)), 10), '}')
	}
	return append(out, ']')
}

// limits returns the least and the highest value of a bucket.
func (t *Table) limits(i int) (least, most int64) {
	if t.Func == "lhist" {
		least = t.Least + int64(i-1)*t.Step
		return least, least + t.Step - 1
	}
	switch {
	case i == 0:
		return 0, -1
	case i <= 2<<t.Bits:
		return int64(i - 1), int64(i - 1)
	}
	multiple, width := t.limit(i - 1)
	next, nextWidth := t.limit(i)
	return multiple << width, next<<nextWidth - 1
}

// AppendJSON appends a value as JSON.
func (v Value) AppendJSON(out []byte) []byte {
	switch {
	case v.IsText:
		return appendString(out, v.String())
	case v.Names != nil:
		out = append(out, "{ "...)
		for i, p := range v.Parts {
			if i > 0 {
				out = append(out, ", "...)
			}
			out = append(appendString(out, v.Names[i]), ": "...)
			out = p.AppendJSON(out)
		}
		return append(out, " }"...)
	case v.Parts != nil:
		out = append(out, '[')
		for i, p := range v.Parts {
			if i > 0 {
				out = append(out, ',')
			}
			out = p.AppendJSON(out)
		}
		return append(out, ']')
	}
	return append(out, v.String()...)
}

// AppendMessage appends a line of JSON with the type of an action and its text.
func AppendMessage(out []byte, kind, text string) []byte {
	out = append(out, `{"type": "`+kind+`", "data": `...)
	return append(appendString(out, text), "}\n"...)
}

// appendString appends a text as a string of JSON. Bytes that are not UTF-8 are replaced, so that
// every reader accepts the line.
func appendString(out []byte, s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return append(out, `""`...)
	}
	return append(out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// KeyText returns a key as a text that differs for different keys.
func KeyText(key []Value) string {
	var b strings.Builder
	for _, v := range key {
		b.WriteString(strconv.Quote(v.KeyString()))
	}
	return b.String()
}
