package procfs

import (
	"culprit/kernel/proc"
)

// PressureResources returns the names of the files in /proc/pressure. irq exists since Linux 6.1,
// with CONFIG_IRQ_TIME_ACCOUNTING.
func PressureResources() []string { return []string{"cpu", "memory", "io", "irq"} }

// ParsePressure parses a pressure file. It returns the microseconds since boot of some and full,
// and whether the file has these lines. cpu has no full line before Linux 5.13, irq has no some
// line.
//
//	some avg10=1.69 avg60=8.16 avg300=4.54 total=37881616
//	full avg10=0.00 avg60=0.00 avg300=0.00 total=0
func ParsePressure(b []byte) (some, full uint64, hasSome, hasFull bool) {
	for len(b) > 0 {
		var line []byte
		line, b = CutLine(b)
		c := proc.Scan(line)
		scope := c.Word()
		for w := c.Word(); w != nil; w = c.Word() {
			if len(w) <= 6 || string(w[:6]) != "total=" {
				continue
			}
			v, err := proc.ParseUint(w[6:])
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
