package classic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

func TestResidualIsZeroWithinTheErrorAndUnknownBeyond(t *testing.T) {
	for _, tt := range []struct {
		name         string
		whole, parts float64
		over         measure.Span
		want         residual
	}{
		{"the difference", 110, 103, measure.Second, residual{value: 7}},
		{"nothing is left", 110, 110, measure.Second, residual{}},
		{"nothing at all", 0, 0, measure.Second, residual{}},
		{"just below the error of a second", 100, 110, measure.Second, residual{clamped: true}}, // a tenth of 110 is 11
		{"just above the error of a second", 98, 110, measure.Second, residual{value: measure.NaN, over: true}},
		{"just below the error of ten seconds", 100, 105, 10 * measure.Second, residual{clamped: true}}, // 5.5 %
		{"just above the error of ten seconds", 100, 107, 10 * measure.Second, residual{value: measure.NaN, over: true}},
		{"a burst that passed before", 1, 9, measure.Second, residual{value: measure.NaN, over: true}},
		{"an unknown whole", measure.NaN, 9, measure.Second, residual{value: measure.NaN}},
		{"an unknown part", 9, measure.NaN, measure.Second, residual{value: measure.NaN}},
		{"no time", 1, 1.01, 0, residual{value: measure.NaN, over: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := residualOf(tt.whole, tt.parts, tt.over)
			same := got.value == tt.want.value ||
				got.value != got.value && tt.want.value != tt.want.value
			if !same || got.clamped != tt.want.clamped || got.over != tt.want.over {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// A residual row is never below zero, whatever the counters are. If it is not the plain difference,
// the table has a note.
func TestNoResidualBelowZero(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		amount := func() string {
			if r.IntN(12) == 0 {
				return "-"
			}
			return fmt.Sprint(r.IntN(1000) * 1000)
		}
		var flows, devices []string
		for c := range r.IntN(5) {
			for _, d := range []string{"rx", "tx"} {
				flows = append(
					flows,
					fmt.Sprintf(
						"'' 10.0.0.1 %d 10.0.0.2 80 %d p%d client %s %s", 1000+c, c, c, d, amount(),
					),
				)
			}
		}
		for _, d := range []string{"rx", "tx"} {
			devices = append(devices, "'' eth0 "+d+" "+amount())
		}
		f := viewtest.Frame(
			viewtest.Answer(
				t,
				"tcp.flow.bytes by "+flowFields+",direction",
				measure.Delta,
				true,
				flows...),
			viewtest.Answer(
				t,
				"net.device.bytes by netns,device,direction",
				measure.Delta,
				false,
				devices...),
			viewtest.Answer(
				t, "net.device.info by netns,device,kind", measure.Level, false,
				"'' eth0 ethernet 1",
			),
			viewtest.Answer(
				t, "net.device.address by netns,device,address", measure.Level, false,
				"'' eth0 10.0.0.1 1",
			),
		)
		for _, by := range []string{"", "process", "peer", "port"} {
			tab := Flows().Table(view.Options{"by": {by}}, f)
			for _, row := range tab.Rows {
				for i, c := range row.Cells {
					if row.Total && c.Num < 0 {
						t.Errorf(
							"frame %d by %q: %s is %v, of %q and %q", n, by, tab.Columns[i].Name,
							c.Num, devices, flows,
						)
					}
				}
			}
			last := tab.Rows[len(tab.Rows)-1]
			for _, direction := range []string{"rx", "tx"} {
				whole := f.One("net.device.bytes", "direction", direction)
				parts := 0.0
				a := f.Of("tcp.flow.bytes")
				for i := range a.Series {
					if a.LabelOf(i, "direction") == direction {
						parts += a.Series[i].Values[0]
					}
				}
				noted := strings.Contains(strings.Join(tab.Notes, "\n"), "residual")
				if parts > whole && !noted {
					t.Errorf(
						"frame %d by %q: %v of %v is %v without a note", n, by, parts, whole,
						last.Cells,
					)
				}
			}
		}
	}
}
