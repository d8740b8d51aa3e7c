package cpu

import (
	"slices"
	"strings"
	"testing"

	"culprit/collect/collecttest"
)

// A missing or negative line of /proc/stat makes its statistic, and only it, unknown for that
// interval.
func TestStatLinesThatAreMissing(t *testing.T) {
	lines := []string{
		"cpu  1 1 1 1 1 1 1 1 1 1",
		"cpu0 1 1 1 1 1 1 1 1 1 1",
		"intr 70 1 2",
		"ctxt 50",
		"processes 30",
		"procs_running 4",
		"procs_blocked 3",
		"btime 1795252139",
	}
	for line, stat := range map[string]string{"intr ": "system.interrupts", "processes ": "sched.forks", "procs_running ": "sched.runnable", "procs_blocked ": "sched.blocked", "btime ": "system.boot"} {
		for name, instead := range map[string]string{"missing": "", "negative": line + "-2049562273", "too large": line + "99999999999999999999999"} {
			t.Run(stat+" "+name, func(t *testing.T) {
				whole := strings.Join(lines, "\n") + "\n"
				at := slices.IndexFunc(
					lines, func(l string) bool { return strings.HasPrefix(l, line) },
				)
				broken := strings.Replace(whole, lines[at], instead, 1)
				m := collecttest.NewMachine(t, CPU{}, map[string]string{"proc/stat": whole})
				m.Read(true)
				for i, text := range []string{broken, whole, whole} {
					m.Put(map[string]string{"proc/stat": text})
					m.Start(false)
					if err := m.Reading.Read(m.Out); err != nil {
						t.Fatal(err)
					}
					for _, b := range m.Out.Finish(nil) {
						unknown := b.Over.Start == b.Over.End
						notes := strings.Join(b.Notes, " ")
						noted := strings.Contains(notes, strings.TrimSpace(line))
						bad := !unknown || b.Rows() > 0 || !noted
						switch {
						case string(b.Stat) == stat && i == 0 && bad:
							t.Errorf("unmeasured %v, %d rows, notes %q", unknown, b.Rows(), b.Notes)
						case (string(b.Stat) != stat || i == 2) && (unknown || b.Rows() == 0):
							t.Errorf("reading %d: nothing of %s", i, b.Stat)
						}
					}
				}
			})
		}
	}
}
