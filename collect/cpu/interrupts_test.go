package cpu

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/heapbound"
)

const interruptsFile = `           CPU0       CPU1       
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 36:          0      73701 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 41: 4294967290          0 PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx, other handler
NMI:          0          0   Non-maskable interrupts
LOC:     270827     272191   Local timer interrupts
ERR:          0
`

func TestInterrupts(t *testing.T) {
	m := collecttest.NewMachine(
		t,
		Interrupts{},
		map[string]string{"proc/interrupts": interruptsFile,
			"proc/irq/24/smp_affinity_list": "0-1\n", "proc/irq/24/effective_affinity_list": "0\n",
			"proc/irq/36/smp_affinity_list": "1\n", "proc/irq/36/effective_affinity_list": "1\n", "proc/irq/41/smp_affinity_list": "0\n"},
	)
	collecttest.Expect(
		t,
		m.Read(true),
		"",
		map[string]float64{"irq.affinity|24|ACPI:Ged|IO-APIC 5-edge|0-1|0": 1,
			"irq.affinity|36|virtio1-req.0|PCI-MSIX-0000:00:02.0 1-edge|1|1": 1, "irq.affinity|41|virtio3-rx, other handler|PCI-MSIX-0000:00:04.0 1-edge|0|": 1},
	)
	m.Put(
		map[string]string{
			"proc/irq/36/smp_affinity_list": "0\n",
			"proc/interrupts": `           CPU0       CPU1       
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 36:          0          5 PCI-MSIX-0000:00:09.0   0-edge      nvme0q1
 37:          3          0 PCI-MSIX-0000:00:02.0   2-edge      virtio1-req.1
 41:          4          0 PCI-MSIX-0000:00:04.0   1-edge      virtio3-rx, other handler
NMI:          0          0   Non-maskable interrupts
LOC:     270837     272211   Local timer interrupts
ERR:          2
`,
		},
	)
	collecttest.Expect(t, m.Read(false), "", map[string]float64{
		"cpu.interrupts|0": 3 + 10 + 10, "cpu.interrupts|1": 5 + 20,
		"irq.count|36|1|nvme0q1|PCI-MSIX-0000:00:09.0 0-edge":                   5,
		"irq.count|37|0|virtio1-req.1|PCI-MSIX-0000:00:02.0 2-edge":             3,
		"irq.count|41|0|virtio3-rx, other handler|PCI-MSIX-0000:00:04.0 1-edge": 10,
		"irq.count|LOC|0|Local timer interrupts|":                               10,
		"irq.count|LOC|1|Local timer interrupts|":                               20,
		"irq.count|ERR|||": 2,
		"irq.affinity|24|ACPI:Ged|IO-APIC 5-edge|0-1|0":                             1,
		"irq.affinity|36|nvme0q1|PCI-MSIX-0000:00:09.0 0-edge|0|1":                  1,
		"irq.affinity|37|virtio1-req.1|PCI-MSIX-0000:00:02.0 2-edge||":              1,
		"irq.affinity|41|virtio3-rx, other handler|PCI-MSIX-0000:00:04.0 1-edge|0|": 1,
	})
	collecttest.Expect(t, m.Read(false), "irq.count", nil)
}

func TestInterruptsHotplug(t *testing.T) {
	line := func(cpus string, counts ...int) string {
		s := "    " + cpus + "\nLOC:"
		for _, n := range counts {
			s += fmt.Sprintf(" %10d", n)
		}
		return s + "   Local timer interrupts\n"
	}
	m := collecttest.NewMachine(
		t, Interrupts{}, map[string]string{"proc/interrupts": line("CPU0 CPU1 CPU2", 10, 20, 30)},
	)
	m.Read(true)
	for _, step := range []struct {
		file string
		want map[string]float64
	}{
		{line("CPU0 CPU2", 11, 32), map[string]float64{"cpu.interrupts|0": 1, "cpu.interrupts|2": 2}},
		{line("CPU0 CPU1 CPU2", 12, 7000, 33), map[string]float64{"cpu.interrupts|0": 1, "cpu.interrupts|2": 1}},
		{line("CPU0 CPU1 CPU2", 12, 7005, 33), map[string]float64{"cpu.interrupts|0": 0, "cpu.interrupts|1": 5, "cpu.interrupts|2": 0}},
	} {
		m.Put(map[string]string{"proc/interrupts": step.file})
		rows := m.Read(false)
		collecttest.Expect(t, rows, "cpu.interrupts", step.want)
		irqs := map[string]float64{} // the only interrupt is the sum; without any it has no row
		for k, v := range step.want {
			if v != 0 {
				irqs["irq.count|LOC|"+k[len("cpu.interrupts|"):]+"|Local timer interrupts|"] = v
			}
		}
		collecttest.Expect(t, rows, "irq.count", irqs)
	}
}

func TestIRQTail(t *testing.T) {
	for tail, want := range map[string][2]string{
		"  IO-APIC   5-edge      ACPI:Ged":                {"IO-APIC 5-edge", "ACPI:Ged"},
		" PCI-MSI 524288-edge      eth0-rx-0":             {"PCI-MSI 524288-edge", "eth0-rx-0"},
		"     GICv3  27 Level     arch_timer":             {"GICv3 27 Level", "arch_timer"},
		"  GICv2m   0 Edge    -msi      eth0, eth1 fancy": {"GICv2m 0 Edge -msi", "eth0, eth1 fancy"},
		" Hyper-V PCIe MSI 3221225472-edge      mlx5_async0@pci:1": {"Hyper-V PCIe MSI " +
			"3221225472-edge", "mlx5_async0@pci:1"},
		"    XT-PIC      cascade":    {"XT-PIC", "cascade"},
		"  IO-APIC  14-fasteoi ":     {"IO-APIC 14-fasteoi", ""},
		"      None":                 {"None", ""},
		" chip -x   5-edge      dev": {"chip -x 5-edge", "dev"},
		" chip   9      dev 7":       {"chip 9", "dev 7"},
		" chip   12:a   5-edge  dev": {"chip 12:a 5-edge", "dev"},
		" chip   5 -x      dev":      {"chip 5 -x", "dev"},
		"":                           {"", ""},
	} {
		if typ, device := parseIRQTail([]byte(tail)); typ != want[0] || device != want[1] {
			t.Errorf("%q: type %q, device %q", tail, typ, device)
		}
	}
}

func TestNumbered(t *testing.T) {
	for name, want := range map[string]bool{
		"0": true, "9": true, "24": true, "": false, "LOC": false, "/": false, ":": false,
	} {
		if numbered(name) != want {
			t.Errorf("%q is numbered: %v", name, !want)
		}
	}
}

// TestAffinitiesTakeTurns changes the affinity of each of 70 interrupts. Each reading sees eight of
// the changes, and at most 128 files stay open.
func TestAffinitiesTakeTurns(t *testing.T) {
	const count = 70
	text := "           CPU0\n"
	affinity := func(cpus string) map[string]string {
		files := map[string]string{}
		for n := range count {
			files[fmt.Sprintf("proc/irq/%d/smp_affinity_list", n)] = cpus
			files[fmt.Sprintf("proc/irq/%d/effective_affinity_list", n)] = cpus
		}
		return files
	}
	for n := range count {
		text += fmt.Sprintf(" %d:  1  PCI-MSI  %d-edge  dev%d\n", n, n, n)
	}
	files := affinity("0")
	files["proc/interrupts"] = text
	m := collecttest.NewMachine(t, Interrupts{}, files)
	changed := func(rows map[string]float64) (n int) {
		for row := range rows {
			switch {
			case !strings.HasPrefix(row, "irq.affinity"):
			case strings.HasSuffix(row, "|1|1"):
				n++
			case !strings.HasSuffix(row, "|0|0"):
				t.Errorf("row %s", row)
			}
		}
		return n
	}
	if n := changed(m.Read(true)); n != 0 {
		t.Errorf("%d affinities have changed before", n)
	}
	m.Put(affinity("1"))
	for reading := 1; reading <= 9; reading++ {
		want := min(reading*affinities, count)
		if n := changed(m.Read(false)); n != want {
			t.Errorf("after %d readings %d changes are seen, want %d", reading, n, want)
		}
	}
	r := m.Reading.(*interruptsReading)
	open := 0
	for _, line := range r.order {
		for _, f := range line.files {
			if f != nil {
				open++
			}
		}
	}
	if open != mostAffinityFiles || r.open != open {
		t.Errorf("%d files are open, counted %d, want %d", open, r.open, mostAffinityFiles)
	}
	m.Put(map[string]string{"proc/interrupts": "           CPU0\n"})
	m.Read(false)
	if r.open != 0 {
		t.Errorf("%d files of interrupts that are gone are open", r.open)
	}
}

func FuzzInterrupts(f *testing.F) {
	f.Add(interruptsFile, strings.ReplaceAll(interruptsFile, "CPU1", "CPU3"))
	f.Add("CPU0\n 1: x\n:\nERR", "CPU0 CPU1\n1: 4 5 6 7 8\n")
	heapbound.Fuzz(f, func(t *testing.T, a, b string) {
		m := &interruptsReading{lines: map[string]*irqLine{}}
		out := collect.NewOut(Interrupts{}.Stats()[:2], collect.NewDictionary(), false)
		for i, text := range []string{a, b, a} {
			out.Start(i == 0, time.Now())
			m.take(out, []byte(text))
			for _, batch := range out.Finish(nil) {
				for _, v := range batch.Values {
					if !(v >= 0) {
						t.Fatalf("%s: %v", batch.Stat, v)
					}
				}
			}
		}
	})
}

// A machine of 256 CPUs and 500 interrupts, of which ten came to every CPU since the last reading.
func BenchmarkInterruptsLarge(b *testing.B) {
	var texts [2][]byte
	for i := range texts {
		var s strings.Builder
		s.WriteString("     ")
		for cpu := range 256 {
			fmt.Fprintf(&s, "CPU%-8d", cpu)
		}
		for irq := range 500 {
			fmt.Fprintf(&s, "\n%4d:", irq)
			for cpu := range 256 {
				n := 1000*irq + cpu
				if irq < 10 {
					n += i
				}
				fmt.Fprintf(&s, " %10d", n)
			}
			fmt.Fprintf(&s, " PCI-MSIX-0000:00:04.0 %d-edge      queue%d", irq, irq)
		}
		texts[i] = []byte(s.String())
	}
	r := &interruptsReading{lines: map[string]*irqLine{}}
	out := collect.NewOut(Interrupts{}.Stats()[:2], collect.NewDictionary(), false)
	b.SetBytes(int64(len(texts[0])))
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		out.Start(i == 0, time.Now())
		if err := r.take(out, texts[i%2]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}
