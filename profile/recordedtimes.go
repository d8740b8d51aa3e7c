package profile

import (
	"cmp"
	"fmt"
	"slices"

	"culprit/measure"
)

// MaxRecordedTimes is the longest time of recorded samples whose profile has a timeline.
const MaxRecordedTimes = 2 * measure.Minute

// recordedTick is the time within which the order of recorded samples is unknown: they are added up
// from one reading to the next.
const recordedTick = measure.Second

// timed reports whether the profile of the part has a timeline.
func (p *Part) timed() bool { return p.Times && p.Over.Span() <= MaxRecordedTimes }

// A recordedTimer collects when the stacks of an answer were sampled.
type recordedTimer struct {
	answer *measure.Answer
	of     []recordedStack
}

// A recordedStack is a series of the answer with its node.
type recordedStack struct{ series, node int32 }

// add adds a series. A nil timer ignores it.
func (r *recordedTimer) add(series int, node int32) {
	if r != nil {
		r.of = append(r.of, recordedStack{int32(series), node})
	}
}

// timeline returns the timeline of the tree; nil of a nil timer and without samples. The stacks of
// a second are side by side, in the order of the tree. A sample is as wide as in all other seconds,
// and the second with the most samples is full.
func (r *recordedTimer) timeline(t *Tree) *Timeline {
	if r == nil || len(r.of) == 0 {
		return nil
	}
	_, place := t.walk(false)
	slices.SortFunc(r.of, func(a, b recordedStack) int {
		return cmp.Or(cmp.Compare(place[a.node], place[b.node]), cmp.Compare(a.series, b.series))
	})
	a, step := r.answer, float64(r.answer.Step)
	most := 0.0
	for c := range a.Elapsed {
		sum := 0.0
		for _, s := range r.of {
			sum += cellAmount(a, int(s.series), c)
		}
		most = max(most, sum)
	}
	line := &Timeline{Threads: []string{"all"}, Within: step}
	for c := range a.Elapsed {
		at, kept := float64(c)*step, int32(0)
		for _, s := range r.of {
			n := cellAmount(a, int(s.series), c)
			if !(n > 0) {
				continue
			}
			if len(line.Moments) == maxMoments {
				line.Left++
				continue
			}
			span := n / most * step
			line.Moments = append(line.Moments, Moment{
				Node: s.node, Kept: kept, At: at, For: span, Amount: n,
			})
			at, kept = at+span, -1
		}
	}
	if len(line.Moments) == 0 {
		return nil
	}
	if line.Left > 0 {
		t.note(fmt.Sprintf("the flame chart ends after %d stacks", maxMoments))
	}
	return line
}

// cellAmount returns the samples of a series in one cell of an answer; 0 where there are none.
func cellAmount(a *measure.Answer, series, cell int) float64 {
	values := a.Series[series].Values
	if cell >= len(values) || cell >= len(a.Elapsed) || !(values[cell] > 0) {
		return 0
	}
	return values[cell] * a.Elapsed[cell].Seconds()
}
