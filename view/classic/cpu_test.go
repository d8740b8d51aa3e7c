package classic

import (
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

func TestCPUModesAreSharesOfTheirSum(t *testing.T) {
	tab := CPU().Table(view.Options{}, viewtest.Frame(
		viewtest.Answer(
			t, "cpu.time by cpu,mode", measure.Delta, false, "0 usr 0.25", "0 idle 0.7",
			"0 sys 0.05", "1 usr 0", "1 idle 0.5", "1 sys 0.5", "10 usr -", "2 irq -", "2 idle 1",
		),
		viewtest.Answer(t, "cpu.interrupts by cpu", measure.Delta, false, "0 100", "1 50"),
		viewtest.Answer(t, "softirq.count by cpu", measure.Delta, false),
		viewtest.Answer(t, "sched.switches", measure.Delta, false, "1234"),
	))
	viewtest.Expect(
		t,
		viewtest.Text(
			tab, "cpu", "usr", "sys", "irq", "idle", "interrupts_per_s", "switches_per_s",
		),
		`all 8.33 18.33 - 73.33 150 1234
0 25 5 - 70 100 -
1 0 50 - 50 50 -
2 - - - 100 - -
10 - - - - - -`,
	)
}
