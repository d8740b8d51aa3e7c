package cpu

import (
	"testing"

	"culprit/collect/collecttest"
)

func TestPressure(t *testing.T) {
	m := collecttest.NewMachine(t, Pressure{}, map[string]string{
		"proc/pressure/cpu": "some avg10=1.69 avg60=8.16 avg300=4.54 total=100\nfull " +
			"avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"proc/pressure/io": "some avg10=1.69 avg60=8.16 avg300=4.54 total=5\n", "proc/pressure/irq": "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"})
	collecttest.Expect(t, m.Read(true), "", nil)
	m.Put(map[string]string{
		"proc/pressure/cpu": "some avg10=1.69 avg60=8.16 avg300=4.54 total=1100\nfull " +
			"avg10=0.00 avg60=0.00 avg300=0.00 total=10\n",
		"proc/pressure/io": "some avg10=1.69 avg60=8.16 avg300=4.54 total=6\n", "proc/pressure/irq": "full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n"})
	collecttest.Expect(
		t,
		m.Read(false),
		"",
		map[string]float64{
			"pressure.time|cpu|some": 1e6,
			"pressure.time|cpu|full": 1e4,
			"pressure.time|io|some":  1e3,
			"pressure.time|irq|full": 1e4,
		},
	)
}
