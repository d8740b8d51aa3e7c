package view

import (
	"strings"
	"testing"

	"culprit/measure"
)

// A process whose CPU time is unknown may be the busiest: it is neither hidden nor before those
// whose CPU time is known.
func TestUnknownProcessesStandLast(t *testing.T) {
	cpu := canned(
		t, "process.cpu by pid,process,mode", measure.Delta, true, "1 hidden usr -",
		"1 hidden sys -", "2 waits usr 0", "3 busy usr 0.5", "4 half usr -", "4 half sys 0.25",
		"5 unseen usr -", "5 unseen sys -",
	)
	wait := canned(
		t, "process.runwait by pid,process", measure.Delta, true, "2 waits 0.125", "5 unseen 0.75",
	)
	rows := text(PS().Table(Options{}, frame(cpu, wait)), "process", "usr", "sys", "run_wait")
	expect(t, rows, `busy 50 0 0
half - 25 0
waits 0 0 12.5
unseen - - 75
hidden - - 0`)
}

func TestSleepOfAThreadIsUnknownWithItsParts(t *testing.T) {
	ps := func(usr, wait string) string {
		key := "7 a 7 a "
		return text(PS().Table(Options{"threads": {""}, "all": {""}}, frame(
			canned(
				t, "thread.cpu by pid,process,tid,thread,mode", measure.Delta, true, key+"usr "+usr,
			),
			canned(t, "thread.runwait by pid,process,tid,thread", measure.Delta, true, key+wait),
		)), "sleep")
	}
	for _, tt := range []struct{ usr, wait, want string }{
		{"0.25", "0.5", "25"}, {"0.75", "0.5", "0"}, {"-", "0.5", "-"}, {"0.25", "-", "-"},
	} {
		if got := ps(tt.usr, tt.wait); got != tt.want {
			t.Errorf("%%SLP of usr %s and waiting %s is %s, not %s", tt.usr, tt.wait, got, tt.want)
		}
	}
}

func TestUnknownConnectionsStandLast(t *testing.T) {
	bytes := canned(
		t, "tcp.flow.bytes by process,direction", measure.Delta, true, "a rx -", "a tx -",
		"b rx 25000", "c rx 125000", "c tx -",
	)
	rows := text(
		Flows().Table(Options{"by": {"process"}}, frame(bytes)), "process", "rx_bytes_per_s",
		"tx_bytes_per_s",
	)
	if !strings.HasPrefix(rows, "c 1 -\nb 0.2 0\na - -\n") {
		t.Errorf("rows %q", rows)
	}
}

// The same row leads to the same tool each time, and to one also where nothing is known.
func TestUseLeadsToTheBusiest(t *testing.T) {
	for _, tt := range []struct {
		cpu, memory, disk, network float64
		want                       string
	}{
		{0.25, 0.5, 0.75, 0.5, "disk"}, {0.5, 0.25, measure.NaN, 0.75, "nic"}, {measure.NaN, 0, measure.NaN, measure.NaN, "mem"},
		{1, 1, 1, 1, "ps"}, {0, 1, 1, 1, "mem"}, {measure.NaN, measure.NaN, measure.NaN, measure.NaN, "ps"},
	} {
		tab := &Table{
			Columns: []Column{
				{Name: "cpu_util"},
				{Name: "memory_util"},
				{Name: "disk_util"},
				{Name: "network_util"},
			},
		}
		r := Row{Cells: []Cell{N(tt.cpu), N(tt.memory), N(tt.disk), N(tt.network)}}
		for range 20 {
			if got := Use().Drill(tab, &r).Tool; got != tt.want {
				t.Fatalf("%v leads to %q, not %q", r.Cells, got, tt.want)
			}
		}
	}
}
