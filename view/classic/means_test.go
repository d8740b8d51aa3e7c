package classic

import (
	"fmt"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// A device that came in the last of four seconds moved a quarter of that second's rate in the mean,
// as its connection did: the rest is no residual, and neither were its drops those of all four.
func TestMeanOfSumsIsOfAllTheTime(t *testing.T) {
	flows, use := view.Mean{Sums: Flows().Sums}, view.Mean{Sums: Use().Sums}
	for n := range 4 {
		device, flow, drop := []string{
			"'' old tx 1e8",
		}, []string{
			"'' 10.0.0.1 1 10.0.0.2 2 7 a client tx 9e7",
		}, []string{
			"'' old 0",
		}
		if n == 3 {
			device, flow, drop = append(device, "'' new tx 1e9"), append(flow, "'' 10.1.0.1 1 10.1.0.2 2 8 b client tx 96e7"), append(drop, "'' new 8")
		}
		flows.Add(
			viewtest.Frame(
				viewtest.Answer(
					t,
					"tcp.flow.bytes by "+flowFields+",direction",
					measure.Delta,
					true,
					flow...),
				viewtest.Answer(
					t,
					"net.device.bytes by netns,device,direction",
					measure.Delta,
					false,
					device...),
				viewtest.Answer(
					t, "net.device.address by netns,device,address", measure.Level, false,
					"'' old 10.0.0.1 1", "'' new 10.1.0.1 1",
				),
			),
		)
		use.Add(
			viewtest.Frame(
				viewtest.Answer(
					t,
					"net.device.drops by netns,device",
					measure.Delta,
					false,
					drop...),
			),
		)
	}
	viewtest.Expect(
		t,
		viewtest.Text(
			Flows().Table(view.Options{}, flows.Frame()), "process", "tx_bytes_per_s", "share",
			"residual",
		),
		`b 1920 68.6 no
a 720 25.7 no
- 160 5.7 yes`,
	)
	viewtest.Expect(
		t, viewtest.Text(UseTable(view.Options{}, use.Frame()), "network_saturation_per_s"), "2",
	)
}

func TestMeanIsAmountOverTime(t *testing.T) {
	tick := func(seconds int, lines ...string) *view.Frame {
		a := viewtest.Answer(t, "process.cpu by pid", measure.Delta, true, lines...)
		a.Elapsed[0] = measure.Span(seconds) * measure.Second
		b := viewtest.Answer(t, "net.device.bytes by device", measure.Delta, false, lines...)
		b.Elapsed[0] = a.Elapsed[0]
		return viewtest.Frame(a, b)
	}
	var m view.Mean
	m.Add(tick(1, "1 0.5", "2 1"))
	m.Add(tick(3, "1 0.1", "3 -"))
	f := m.Frame()
	var got []string
	for _, a := range f.Answers {
		for i := range a.Series {
			got = append(got, fmt.Sprintf("%s=%.3f", a.Label(i, 0), a.Series[i].Values[0]))
		}
	}
	// 2 is sparse: away for three of four seconds is 0 then; as a device it was gone.
	viewtest.Expect(t, strings.Join(got, " "), "1=0.200 2=0.250 3=NaN 1=0.200 2=1.000 3=NaN")
}
