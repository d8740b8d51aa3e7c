package view

import (
	"fmt"
	"testing"

	"culprit/measure"
)

func TestMeanOfDaysStaysSmall(t *testing.T) {
	var m Mean
	for n := range 20 {
		a := &measure.Answer{
			Query:   measure.Query{Stat: "process.cpu", By: []string{"pid"}},
			Kind:    measure.Delta,
			Sparse:  true,
			Elapsed: []measure.Span{measure.Second},
		}
		for i := range maxMeanRows / 10 {
			a.Series = append(
				a.Series,
				measure.Series{Key: []measure.Label{measure.Label(i)}, Values: []float64{1}},
			)
			a.Labels = append(a.Labels, fmt.Sprint(n, ".", i))
		}
		m.Add(&Frame{Answers: []*measure.Answer{a}})
	}
	f := m.Frame()
	a := f.Answers[0]
	if len(a.Series) > maxMeanRows+maxMeanRows/10 || len(f.Notes(nil, 80)) != 1 ||
		a.Label(0, 0) != "0.0" ||
		a.Series[0].Values[0] != 0.05 {
		t.Errorf(
			"%d rows, notes %q, first %s = %g", len(a.Series), f.Notes(nil, 80), a.Label(0, 0),
			a.Series[0].Values[0],
		)
	}
}
