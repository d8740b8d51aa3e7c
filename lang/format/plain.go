package format

// String returns the name of the function in D.
func (f Function) String() string {
	names := [...]string{
		"count",
		"sum",
		"min",
		"max",
		"avg",
		"stddev",
		"quantize",
		"lquantize",
		"llquantize",
	}
	if int(f) < len(names) {
		return names[f]
	}
	return "?"
}

// Sorted returns the rows in the order of printing.
func (s *Style) Sorted(a *Aggregation) []AggregationRow {
	out := make([]AggregationRow, 0, len(a.Rows))
	for _, r := range s.sorted(a) {
		out = append(out, r.AggregationRow)
	}
	return out
}

// Value returns the printed number of a row, normalized; false: the row is a distribution.
func (a *Aggregation) Value(r AggregationRow) (int64, bool) {
	data := a.sound(r.Data)
	switch a.Func {
	case Quantize, Lquantize, Llquantize:
		return 0, false
	case Avg:
		return average(data, a.Normal), true
	case Stddev:
		return int64(deviation(data, a.Normal)), true
	}
	return normalized(data[0], a.Normal), true
}
