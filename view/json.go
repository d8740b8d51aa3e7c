package view

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"culprit/measure"
)

// AppendJSON appends the table as one JSON object without line breaks:
//
//	{"format":1,"view":"nic","start":"...","seconds":1.0003,"rows":[{...}],"loss":[],"notes":[]}
//
// docs/schemas describes the tables of each command; format is the version of their shape.
// Unknown values are null. Rows have the columns with a name, in order, and "remark" if set.
func AppendJSON(b []byte, t *Table) []byte {
	b = append(b, `{"format":1,"view":`...)
	b = AppendString(b, t.View)
	b = append(b, `,"start":`...)
	b = AppendString(b, t.Over.Start.String())
	b = append(b, `,"seconds":`...)
	b = AppendNumber(b, t.Over.Seconds())
	b = append(b, `,"rows":[`...)
	for r, row := range t.Rows {
		if r > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		first := true
		name := func(n string) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(AppendString(b, n), ':')
		}
		for i, c := range t.Columns {
			if c.Name == "" {
				continue
			}
			name(c.Name)
			b = AppendCell(b, row.Cells[i])
		}
		if row.Remark != "" {
			name("remark")
			b = AppendString(b, row.Remark)
		}
		b = append(b, '}')
	}
	b = append(b, `],"loss":`...)
	b = AppendValue(b, orEmpty(t.Loss))
	b = append(b, `,"notes":`...)
	b = AppendValue(b, orEmpty(t.Notes))
	return append(b, '}')
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// AppendCell appends a cell as JSON: a number, a text, true or false, or null.
func AppendCell(b []byte, v Cell) []byte {
	switch v.Kind {
	case IsText:
		return AppendString(b, v.Text)
	case IsJSON:
		return append(b, v.Text...)
	case IsNull:
		return append(b, "null"...)
	case IsBool:
		return strconv.AppendBool(b, v.Num != 0)
	}
	return AppendNumber(b, v.Num)
}

// AppendString appends a JSON string. Invalid UTF-8 becomes U+FFFD.
func AppendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' ||
			c == '&' {
			return AppendValue(b, strings.ToValidUTF8(s, "\uFFFD"))
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// AppendValue appends a value that consists of texts, whole numbers, losses and lists of them. It
// panics for other values.
func AppendValue(b []byte, v any) []byte {
	j, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return measure.AppendJSON(b, j)
}

// AppendNumber appends a number with nine digits, whole numbers up to 10^15 exactly; null for NaN
// and infinities.
func AppendNumber(b []byte, v float64) []byte {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return append(b, "null"...)
	}
	if v == math.Trunc(v) && math.Abs(v) < 1e15 {
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', 9, 64)
}
