package web

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"culprit/fleet"
	"culprit/measure"
	"culprit/view"
	"culprit/view/web/api"
)

// shaped is an answer as it is sent: the rows sorted by weight, heaviest first, and those beyond
// the top folded into one.
type shaped struct {
	*measure.Answer
	stack []bool    // per field of the breakdown: its labels are frames, not texts
	order []int     // the series to send
	rest  []float64 // per cell, the sum of the series not sent; nil: all are sent, or no sum
	left  int       // the number of series not sent; 0 if rest is nil
	// unlike are the series that differ from the others, by their number.
	unlike map[int]fleet.Outlier
}

// shape sorts an answer and keeps the top rows, and before these the ones in unlike; all if top is
// 0. If st is nil, nothing is folded. The error says that the answer has more values than may be
// sent.
func shape(
	a *measure.Answer, st *measure.Stat, top int, unlike map[int]fleet.Outlier,
) (*shaped, error) {
	n, cells := len(a.Series), len(a.Elapsed)
	if cells > 0 && n > maxValues/cells {
		return nil, tooManyValues(n, cells, maxValues)
	}
	rows := byWeight(a, st)
	s := &shaped{Answer: a, stack: make([]bool, len(a.Query.By)), order: rows, unlike: unlike}
	if st != nil {
		for k, name := range a.Query.By {
			f, _ := st.Field(name)
			s.stack[k] = f.Type == measure.Stack
		}
	}
	if top > 0 && top < n {
		var left []int
		s.order, left = selectRows(rows, top, unlike)
		if st != nil && st.AddsUp(a.Query) {
			s.rest, s.left = slices.Repeat([]float64{measure.NaN}, cells), n-top
			for _, i := range left {
				add(s.rest, a.Series[i].Values)
			}
		}
	}
	if s.Rest.Values != nil {
		if s.rest == nil {
			s.rest = slices.Repeat([]float64{measure.NaN}, cells)
		}
		add(s.rest, s.Rest.Values)
		s.left += s.Rest.Rows
	}
	if cells > 0 && len(s.order) > maxSent/cells {
		return nil, tooManyValues(len(s.order), cells, maxSent)
	}
	return s, nil
}

// byWeight returns the numbers of the rows, the heaviest first.
func byWeight(a *measure.Answer, st *measure.Stat) []int {
	rows, weights := make([]int, len(a.Series)), make([]float64, len(a.Series))
	for i := range rows {
		rows[i], weights[i] = i, weight(a, st, i)
	}
	slices.SortFunc(rows, func(x, y int) int {
		if c := -cmp.Compare(weights[x], weights[y]); c != 0 { // NaN is below all numbers
			return c
		}
		for k := range a.Query.By {
			l, r := a.Label(x, k), a.Label(y, k)
			switch {
			case l == r:
			case view.NaturalLess(l, r):
				return -1
			case view.NaturalLess(r, l):
				return 1
			default:
				return cmp.Compare(l, r)
			}
		}
		return cmp.Compare(x, y)
	})
	return rows
}

// weight returns what rows are sorted by. For values that add up it is the total: a process that
// used a CPU for a second weighs less than one that used half a CPU all day. For other values it is
// the mean, and for distributions the number of values.
func weight(a *measure.Answer, st *measure.Stat, i int) float64 {
	switch {
	case a.Kind == measure.Dists:
		return values(a.Series[i].Dists())
	case st == nil || !st.Allowed().Sum:
		return a.Mean(i)
	}
	whole := measure.NaN
	for c, v := range a.Series[i].Values {
		if v == v && c < len(a.Elapsed) {
			if whole != whole {
				whole = 0
			}
			whole += v * float64(a.Elapsed[c])
		}
	}
	return whole
}

func tooManyValues(rows, cells, limit int) error {
	message := fmt.Sprintf("%d rows x %d cells are too much: at most %d values", rows, cells, limit)
	return tooLarge(message, "ask for the top rows, fewer columns, a shorter time or fewer fields")
}

// add adds b to a, cell by cell. NaN counts as 0 unless both are NaN.
func add(a, b []float64) {
	for c, v := range b[:min(len(a), len(b))] {
		switch {
		case v != v:
		case a[c] != a[c]:
			a[c] = v
		default:
			a[c] += v
		}
	}
}

// values returns the number of values in some distributions.
func values(dists []measure.Dist) float64 {
	var n uint64
	for i := range dists {
		n += dists[i].Count()
	}
	return float64(n)
}

// appendJSON appends the answer as JSON. docs/openapi.yaml describes it.
func (s *shaped) appendJSON(b []byte) []byte {
	b = s.appendHead(b, false)
	b = append(b, `,"series":[`...)
	for i, n := range s.order {
		if i > 0 {
			b = append(b, ',')
		}
		series := &s.Series[n]
		b = s.appendKey(append(b, `{"key":`...), series)
		if s.Kind == measure.Dists {
			b = appendDists(append(b, `,"dists":`...), series.Dists())
		} else {
			b = appendNumbers(append(b, `,"values":`...), series.Values)
			if series.Min() != nil && series.Max() != nil {
				b = appendNumbers(append(b, `,"min":`...), series.Min())
				b = appendNumbers(append(b, `,"max":`...), series.Max())
			}
		}
		b = append(s.appendUnlike(b, n), '}')
	}
	b = append(b, ']')
	if s.left > 0 {
		b = strconv.AppendInt(append(b, `,"rest":{"rows":`...), int64(s.left), 10)
		b = appendNumbers(append(b, `,"values":`...), s.rest)
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendHead appends an object with all but the series, without its closing brace. With exact it
// has the times in nanoseconds too, and not the measured times of the cells, which are a column
// then.
func (s *shaped) appendHead(b []byte, exact bool) []byte {
	b = view.AppendString(append(b, `{"query":`...), s.Query.String())
	b = view.AppendString(append(b, `,"kind":`...), s.Kind.String())
	b = view.AppendString(append(b, `,"unit":`...), string(s.Unit))
	if s.Sparse {
		b = append(b, `,"sparse":true`...)
	}
	b = api.AppendMillis(append(b, `,"start_ms":`...), int64(s.Start))
	b = api.AppendMillis(append(b, `,"step_ms":`...), int64(s.Step))
	if exact {
		b = strconv.AppendInt(append(b, `,"start_ns":`...), int64(s.Start), 10)
		b = strconv.AppendInt(append(b, `,"step_ns":`...), int64(s.Step), 10)
		b = strconv.AppendInt(append(b, `,"cells":`...), int64(len(s.Elapsed)), 10)
	} else {
		b = append(b, `,"elapsed_ms":[`...)
		for c, e := range s.Elapsed {
			if c > 0 {
				b = append(b, ',')
			}
			b = api.AppendMillis(b, int64(e))
		}
		b = append(b, ']')
	}
	b = appendStrings(append(b, `,"by":`...), s.Query.By)
	b = strconv.AppendInt(append(b, `,"rows":`...), int64(len(s.Series)+s.Rest.Rows), 10)
	b = appendLoss(append(b, `,"loss":`...), s.Loss)
	b = appendStrings(append(b, `,"notes":`...), s.Notes)
	if len(s.Frames) > 0 && slices.Contains(s.stack, true) {
		b = append(b, `,"frames":[`...)
		for i, f := range s.Frames {
			if i > 0 {
				b = append(b, ',')
			}
			b = view.AppendString(append(b, `{"symbol":`...), f.Symbol)
			b = view.AppendString(append(b, `,"module":`...), f.Module)
			b = strconv.AppendUint(append(b, `,"offset":`...), f.Offset, 10)
			b = strconv.AppendInt(append(b, `,"parent":`...), int64(f.Parent), 10)
			b = append(b, '}')
		}
		b = append(b, ']')
	}
	return b
}

// appendKey appends the labels of a row: texts, or numbers of frames.
func (s *shaped) appendKey(b []byte, series *measure.Series) []byte {
	b = append(b, '[')
	for k, l := range series.Key {
		if k > 0 {
			b = append(b, ',')
		}
		if s.stack[k] {
			b = strconv.AppendUint(b, uint64(l), 10)
		} else {
			b = view.AppendString(b, s.Labels[l])
		}
	}
	return append(b, ']')
}

func appendNumbers(b []byte, values []float64) []byte {
	b = append(b, '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendNumber(b, v)
	}
	return append(b, ']')
}

func appendStrings(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(b, t)
	}
	return append(b, ']')
}

func appendLoss(b []byte, loss []measure.Loss) []byte {
	b = append(b, '[')
	for i, l := range loss {
		if i > 0 {
			b = append(b, ',')
		}
		b = view.AppendString(append(b, `{"reason":`...), l.Reason)
		b = strconv.AppendUint(append(b, `,"events":`...), l.Events, 10)
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendDists appends distributions; null for an empty one.
func appendDists(b []byte, dists []measure.Dist) []byte {
	b = append(b, '[')
	for i := range dists {
		if i > 0 {
			b = append(b, ',')
		}
		d := &dists[i]
		if len(d.Counts) == 0 {
			b = append(b, "null"...)
			continue
		}
		b = strconv.AppendUint(append(b, `{"base":`...), uint64(d.Base), 10)
		b = strconv.AppendInt(append(b, `,"first":`...), int64(d.First), 10)
		b = append(b, `,"counts":[`...)
		for k, n := range d.Counts {
			if k > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendUint(b, n, 10)
		}
		b = append(b, `],"sum":`...)
		b = appendExact(b, d.Sum)
		b = append(b, '}')
	}
	return append(b, ']')
}

// appendExact appends a number with all its digits; null for NaN and infinity.
func appendExact(b []byte, v float64) []byte {
	if v-v != 0 { // NaN or infinite
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}
