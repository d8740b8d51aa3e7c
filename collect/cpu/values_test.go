package cpu

import (
	"fmt"
	"testing"

	"culprit/collect/collecttest"
)

// TestInterruptWraps: a counter of 32 bits that wraps goes on; one that starts again counts from
// zero. Only a fall from the highest quarter of its range to the lowest is a wrap.
func TestInterruptWraps(t *testing.T) {
	for _, tt := range []struct {
		name      string
		last, now uint32
		want      float64
	}{
		{"grows", 100, 107, 7},
		{"wraps", 1<<32 - 3, 4, 7},
		{"wraps from the edge", 3<<30 + 1, 5, 1<<30 + 4},
		{"starts again below the edge", 3 << 30, 5, 5},
		{"wraps to the edge", 3<<30 + 1, 1<<30 - 1, 1<<31 - 2},
		{"starts again beyond the edge", 3<<30 + 1, 1 << 30, 1 << 30},
		{"starts again", 1000, 3, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := func(n uint32) map[string]string {
				return map[string]string{"proc/interrupts": fmt.Sprintf(
					"           CPU0       CPU1\n"+
						" 24: %10d          5   PCI-MSI 1-edge      eth0\n", n)}
			}
			m := collecttest.NewMachine(t, Interrupts{}, file(tt.last))
			m.Read(true)
			m.Put(file(tt.now))
			rows := m.Read(false)
			collecttest.Expect(t, rows, "irq.count",
				map[string]float64{"irq.count|24|0|eth0|PCI-MSI 1-edge": tt.want})
			collecttest.Expect(t, rows, "cpu.interrupts",
				map[string]float64{"cpu.interrupts|0": tt.want, "cpu.interrupts|1": 0})
		})
	}
}

// TestParseCounts: numbers end at a chip whose name begins with digits, or where there is a column
// for each CPU.
func TestParseCounts(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int
		want [3]uint32
		tail string
	}{
		{"   1   2   3   chip", 3, [3]uint32{1, 2, 3}, "   chip"},
		{" 1 2 3 4", 3, [3]uint32{1, 2, 3}, " 4"},
		{" 7 8259A eth0", 1, [3]uint32{7}, " 8259A eth0"},
		{" 9", 1, [3]uint32{9}, ""},
		{" 4294967298 5", 2, [3]uint32{2, 5}, ""},
		{"   chip", 0, [3]uint32{}, "   chip"},
		{"", 0, [3]uint32{}, ""},
	} {
		var got [3]uint32
		n, tail := parseCounts(got[:], []byte(tt.text))
		if n != tt.n || got != tt.want || string(tail) != tt.tail {
			t.Errorf("%q: %d numbers %v, then %q; want %d, %v, %q", tt.text, n, got, tail, tt.n,
				tt.want, tt.tail)
		}
	}
}

// TestLinesOfTheMachine: ERR and MIS count for the whole machine and are in no CPU's sum. The
// shootdowns of TLB are in CAL.
func TestLinesOfTheMachine(t *testing.T) {
	file := func(more int) map[string]string {
		line := func(name string, each ...int) string {
			s := fmt.Sprintf("%4s:", name)
			for _, n := range each {
				s += fmt.Sprintf(" %10d", 100+n*more)
			}
			return s
		}
		return map[string]string{"proc/interrupts": "           CPU0       CPU2\n" +
			line("0", 2, 3) + "   IO-APIC 2-edge      timer\n" +
			line("LOC", 5, 7) + "   Local timer interrupts\n" +
			line("CAL", 11, 13) + "   Function call interrupts\n" +
			line("TLB", 17, 19) + "   TLB shootdowns\n" +
			line("ERR", 23) + "\n" + line("MIS", 29) + "\n"}
	}
	m := collecttest.NewMachine(t, Interrupts{}, file(0))
	m.Read(true)
	m.Put(file(1))
	rows := m.Read(false)
	collecttest.Expect(t, rows, "cpu.interrupts", map[string]float64{
		"cpu.interrupts|0": 2 + 5 + 11, "cpu.interrupts|2": 3 + 7 + 13})
	collecttest.Expect(t, rows, "irq.count", map[string]float64{
		"irq.count|0|0|timer|IO-APIC 2-edge": 2, "irq.count|0|2|timer|IO-APIC 2-edge": 3,
		"irq.count|LOC|0|Local timer interrupts|":   5,
		"irq.count|LOC|2|Local timer interrupts|":   7,
		"irq.count|CAL|0|Function call interrupts|": 11,
		"irq.count|CAL|2|Function call interrupts|": 13,
		"irq.count|TLB|0|TLB shootdowns|":           17,
		"irq.count|TLB|2|TLB shootdowns|":           19,
		"irq.count|ERR|||":                          23, "irq.count|MIS|||": 29})
}

// TestCPUHeader: the columns are CPUs below 2^20, and nothing else.
func TestCPUHeader(t *testing.T) {
	for text, want := range map[string]string{
		"           CPU0       CPU1       CPU4": "[0 1 4]", "CPU1048575": "[1048575]",
		"CPU1048576": "", "CPU0 CPU": "", "CPU0 CPx1": "", "cpu0": "", "CPU0 x": "", "CPU-1": "", "": "",
	} {
		got := ""
		if cpus, ok := parseCPUHeader(nil, []byte(text)); ok {
			got = fmt.Sprint(cpus)
		}
		if got != want {
			t.Errorf("%q has CPUs %q, want %q", text, got, want)
		}
	}
}
