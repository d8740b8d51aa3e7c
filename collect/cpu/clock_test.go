package cpu

import (
	"errors"
	"testing"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/measure"
)

func TestClock(t *testing.T) {
	m := collecttest.NewMachine(t, Clock{}, map[string]string{
		"sys/devices/system/clocksource/clocksource0/current_clocksource":   "hpet\n",
		"sys/devices/system/clocksource/clocksource0/available_clocksource": "hpet acpi_pm \n",
	})
	collecttest.Expect(t, m.Read(true), "",
		map[string]float64{"system.clocksource|hpet|hpet,acpi_pm": 1})
	m.Put(map[string]string{
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "acpi_pm\n",
	})
	collecttest.Expect(t, m.Read(false), "",
		map[string]float64{"system.clocksource|acpi_pm|hpet,acpi_pm": 1})
}

func TestClockThatIsNotShown(t *testing.T) {
	m := collecttest.EmptyMachine(t)
	if _, err := (Clock{}).Open(&m.Env, collect.Want{}); !errors.Is(err, measure.ErrUnsupported) {
		t.Errorf("%v, want that the system does not show it", err)
	}
}
