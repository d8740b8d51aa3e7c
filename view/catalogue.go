package view

import (
	"strconv"

	"culprit/measure"
)

// AppendCatalogue appends the descriptions of statistics as one JSON object:
//
//	{"format":1,"stats":[{"id":"cpu.time","kind":"delta","unit":"ns",...}]}
//
// docs/schemas/catalogue.json describes it.
func AppendCatalogue(b []byte, stats []measure.Stat) []byte {
	b = append(b, `{"format":1,"stats":[`...)
	for i := range stats {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendStat(b, &stats[i])
	}
	return append(b, "]}"...)
}

// AppendStat appends the description of a statistic.
func AppendStat(b []byte, st *measure.Stat) []byte {
	b = AppendString(append(b, `{"id":`...), string(st.ID))
	subsystem, thing, quantity := Words(st.ID)
	b = AppendString(append(b, `,"words":[`...), subsystem)
	b = AppendString(append(b, ','), thing)
	b = append(AppendString(append(b, ','), quantity), ']')
	b = AppendString(append(b, `,"kind":`...), st.Kind.String())
	b = AppendString(append(b, `,"unit":`...), string(st.Unit))
	b = AppendString(append(b, `,"rate_unit":`...), string(st.AnswerUnit()))
	b = AppendString(append(b, `,"fold":`...), st.Fold.String())
	b = appendMay(append(b, `,"may":`...), st.Allowed())
	b = AppendString(append(b, `,"folded":`...), st.FoldLabel())
	b = strconv.AppendBool(append(b, `,"sparse":`...), st.Sparse)
	if st.Traced {
		b = append(b, `,"traced":true`...)
	}
	b = AppendString(append(b, `,"help":`...), st.Help)
	b = append(b, `,"fields":[`...)
	for i, f := range st.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendString(append(b, `{"name":`...), f.Name)
		b = AppendString(append(b, `,"type":`...), f.Type.String())
		b = AppendString(append(b, `,"unit":`...), string(f.Unit))
		b = AppendString(append(b, `,"help":`...), f.Help)
		if f.Overlaps {
			b = append(b, `,"overlaps":true`...)
		}
		b = append(b, '}')
	}
	b = append(b, ']')
	if st.Whole != (measure.Whole{}) {
		b = AppendString(append(b, `,"whole":{"sentence":`...), st.Whole.Query)
		b = append(AppendString(append(b, `,"rest":`...), st.Whole.Rest), '}')
	}
	if st.Program != "" {
		b = AppendString(append(b, `,"program":`...), st.Program)
	}
	return append(b, '}')
}

// appendMay appends which operations make sense for the values of a statistic.
func appendMay(b []byte, may measure.Allowed) []byte {
	b = strconv.AppendBool(append(b, `{"sum":`...), may.Sum)
	b = strconv.AppendBool(append(b, `,"stack":`...), may.Stack)
	b = strconv.AppendBool(append(b, `,"rate":`...), may.Rate)
	b = strconv.AppendBool(append(b, `,"percentile":`...), may.Percentile)
	return append(b, '}')
}
