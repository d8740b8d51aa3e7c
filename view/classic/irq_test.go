package classic

import (
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// The row of a softirq includes the time for each device, and rows below it show them. The time of
// interrupts that cannot be measured is unknown.
func TestIRQTimes(t *testing.T) {
	answers := func(times bool) *view.Frame {
		f := viewtest.Frame(
			viewtest.Answer(
				t, "irq.count by irq,cpu,device,type", measure.Delta, true, "24 0 nvme0q1 x 10",
				"24 1 nvme0q1 x 5", "LOC 0 timer '' 100", "TLB 1 shootdowns '' 3",
			),
			viewtest.Answer(
				t, "softirq.count by cpu,vector", measure.Delta, true, "0 NET_RX 50", "1 TIMER 7",
			),
		)
		if times {
			f.Answers = append(
				f.Answers,
				viewtest.Answer(
					t, "irq.time by irq,cpu,device,type", measure.Delta, true,
					"24 0 nvme0q1 x 0.25", "31 1 ended x 0.5",
				),
				viewtest.Answer(
					t, "softirq.time by cpu,vector,device", measure.Delta, true,
					"0 NET_RX '' 0.125", "0 NET_RX eth1 0.25", "1 NET_RX eth1 0.5",
				),
			)
		}
		return f
	}
	viewtest.Expect(
		t,
		viewtest.Text(
			IRQ().Table(view.Options{}, answers(true)), "irq", "kind", "device", "count_per_s",
			"%tim", "cpu0", "cpu1", "%cpu0", "%cpu1",
		),
		`24 hard nvme0q1 15 25 10 5 25 0
31 hard ended 0 50 0 0 0 50
LOC hard timer 100 0 100 0 0 0
TLB hard shootdowns 3 - 0 3 - -
NET_RX soft  50 87.5 50 0 37.5 50
NET_RX part eth1 - 75 - - 25 50
TIMER soft  7 0 0 7 0 0`,
	)
	viewtest.Expect(
		t,
		viewtest.Text(
			IRQ().Table(view.Options{}, answers(false)), "irq", "device", "count_per_s", "%tim",
			"cpu0", "%cpu0",
		),
		`24 nvme0q1 15 - 10 -
LOC timer 100 - 100 -
TLB shootdowns 3 - 0 -
NET_RX  50 - 50 -
TIMER  7 - 0 -`,
	)
}
