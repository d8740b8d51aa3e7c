package procfs

import (
	"culprit/kernel"
)

// PressureResources are the files of /proc/pressure. irq exists since 6.1 and only where the time of interrupts is measured.
func PressureResources() []string { return []string{"cpu", "memory", "io", "irq"} }

// ParsePressure reads a pressure file: for each of some and full the microseconds since boot, and whether the file has the
// line. cpu has no full line before 5.13, irq has no some.
//
//	some avg10=1.69 avg60=8.16 avg300=4.54 total=37881616
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=0
func ParsePressure(b []byte) (some, full uint64, hasSome, hasFull bool) {
	for len(b) > 0 {
		var line []byte
		line, b = CutLine(b)
		c := kernel.Scan(line)
		scope := c.Word()
		for w := c.Word(); w != nil; w = c.Word() {
			if len(w) <= 6 || string(w[:6]) != "total=" {
				continue
			}
			v, err := kernel.ParseUint(w[6:])
			if err != nil {
				continue
			}
			switch string(scope) {
			case "some":
				some, hasSome = v, true
			case "full":
				full, hasFull = v, true
			}
		}
	}
	return
}
