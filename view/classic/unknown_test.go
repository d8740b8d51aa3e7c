package classic

import (
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// A process whose CPU time is unknown may be the busiest: it is neither hidden nor before those
// whose CPU time is known.
func TestUnknownProcessesStandLast(t *testing.T) {
	cpu := viewtest.Answer(
		t, "process.cpu by pid,process,mode", measure.Delta, true, "1 hidden usr -",
		"1 hidden sys -", "2 waits usr 0", "3 busy usr 0.5", "4 half usr -", "4 half sys 0.25",
		"5 unseen usr -", "5 unseen sys -",
	)
	wait := viewtest.Answer(
		t, "process.runwait by pid,process", measure.Delta, true, "2 waits 0.125", "5 unseen 0.75",
	)
	rows := viewtest.Text(
		PS().Table(view.Options{}, viewtest.Frame(cpu, wait)), "process", "usr", "sys", "run_wait",
	)
	viewtest.Expect(t, rows, `busy 50 0 0
half - 25 0
waits 0 0 12.5
unseen - - 75
hidden - - 0`)
}

func TestSleepOfAThreadIsUnknownWithItsParts(t *testing.T) {
	ps := func(usr, wait string) string {
		key := "7 a 7 a "
		return viewtest.Text(PS().Table(view.Options{"threads": {""}, "all": {""}}, viewtest.Frame(
			viewtest.Answer(
				t, "thread.cpu by pid,process,tid,thread,mode", measure.Delta, true, key+"usr "+usr,
			),
			viewtest.Answer(
				t, "thread.runwait by pid,process,tid,thread", measure.Delta, true, key+wait,
			),
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
	bytes := viewtest.Answer(
		t, "tcp.flow.bytes by process,direction", measure.Delta, true, "a rx -", "a tx -",
		"b rx 25000", "c rx 125000", "c tx -",
	)
	rows := viewtest.Text(
		Flows().Table(view.Options{"by": {"process"}}, viewtest.Frame(bytes)), "process",
		"rx_bytes_per_s", "tx_bytes_per_s",
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
		tab := &view.Table{
			Columns: []view.Column{
				{Name: "cpu_util"},
				{Name: "memory_util"},
				{Name: "disk_util"},
				{Name: "network_util"},
			},
		}
		r := view.Row{
			Cells: []view.Cell{
				view.N(tt.cpu),
				view.N(tt.memory),
				view.N(tt.disk),
				view.N(tt.network),
			},
		}
		for range 20 {
			if got := Use().Drill(tab, &r).Tool; got != tt.want {
				t.Fatalf("%v leads to %q, not %q", r.Cells, got, tt.want)
			}
		}
	}
}
