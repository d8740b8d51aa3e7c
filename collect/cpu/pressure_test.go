package cpu

import (
	"fmt"
	"testing"

	"culprit/collect/collecttest"
)

func TestPressure(t *testing.T) {
	some := func(total int) string {
		return fmt.Sprintf("some avg10=1.69 avg60=8.16 avg300=4.54 total=%d\n", total)
	}
	full := func(total int) string {
		return fmt.Sprintf("full avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n", total)
	}
	m := collecttest.NewMachine(t, Pressure{}, map[string]string{
		"proc/pressure/cpu": some(100) + full(0),
		"proc/pressure/io":  some(5),
		"proc/pressure/irq": full(7),
	})
	collecttest.Expect(t, m.Read(true), "", nil)
	m.Put(map[string]string{
		"proc/pressure/cpu": some(100+1009) + full(11),
		"proc/pressure/io":  some(5 + 3),
		"proc/pressure/irq": full(7 + 13),
	})
	collecttest.Expect(t, m.Read(false), "", map[string]float64{
		"pressure.time|cpu|some": 1009e3,
		"pressure.time|cpu|full": 11e3,
		"pressure.time|io|some":  3e3,
		"pressure.time|irq|full": 13e3,
	})
}
