package classic

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
)

// A table in Buffers that held another table equals a fresh one.
func TestBuffersLeaveNothingBehind(t *testing.T) {
	answer := func(id string, by []string, rows map[string]float64) *measure.Answer {
		a := &measure.Answer{
			Query:   measure.Query{Stat: measure.StatID(id), By: by},
			Elapsed: []measure.Span{measure.Second},
		}
		label := func(w string) measure.Label {
			a.Labels = append(a.Labels, w)
			return measure.Label(len(a.Labels) - 1)
		}
		for _, key := range slices.Sorted(maps.Keys(rows)) {
			var k []measure.Label
			for _, w := range strings.Fields(key) {
				k = append(k, label(w))
			}
			a.Series = append(a.Series, measure.Series{Key: k, Values: []float64{rows[key]}})
		}
		return a
	}
	cpu := func(n string, usr float64) []*measure.Answer {
		return []*measure.Answer{
			answer(
				"cpu.time", []string{"cpu", "mode"},
				map[string]float64{n + " usr": usr, n + " idle": 1 - usr},
			),
			answer("cpu.interrupts", []string{"cpu"}, map[string]float64{n: 7}),
		}
	}
	nic := func(device string, v float64) []*measure.Answer {
		return []*measure.Answer{
			answer(
				"net.device.bytes", []string{"device", "direction"},
				map[string]float64{device + " rx": v, device + " tx": 2 * v, "lo rx": 1},
			),
			answer(
				"net.device.info", []string{"device", "admin", "duplex"},
				map[string]float64{device + " up full": 1},
			),
		}
	}
	reused := &view.Buffers{}
	for n, step := range []struct {
		tool    *view.Tool
		o       view.Options
		answers []*measure.Answer
	}{
		{NIC(), nil, nic("eth0", 5)}, {NIC(), nil, nic("eth1", 6)}, {CPU(), nil, cpu("0", 0.5)}, {CPU(), view.Options{"extended": {""}}, cpu("1", 0.25)}, {CPU(), nil, cpu("1", 0.25)},
		{Mem(), nil, cpu("0", 0.5)}, {IRQ(), view.Options{"all": {""}}, []*measure.Answer{answer("irq.count", []string{"irq", "cpu", "device", "type"}, map[string]float64{"9 0 acpi x": 1})}},
		{IRQ(), view.Options{"all": {""}}, []*measure.Answer{answer("irq.count", []string{"irq", "cpu", "device", "type"}, map[string]float64{"9 3 acpi x": 1})}},
		{Disk(), nil, []*measure.Answer{answer("disk.operations", []string{"device", "direction"}, map[string]float64{"vda read": 3})}}, {NIC(), nil, nic("eth0", 5)}, {Mem(), nil, cpu("0", 0.5)},
	} {
		got := step.tool.Table(step.o, &view.Frame{Answers: step.answers, Buffers: reused})
		want := step.tool.Table(step.o, &view.Frame{Answers: step.answers})
		if !reflect.DeepEqual(got.Columns, want.Columns) ||
			fmt.Sprint(got.Rows) != fmt.Sprint(want.Rows) ||
			!reflect.DeepEqual(got.Notes, want.Notes) {
			t.Errorf("%d: %s differs:\n%v\n%v", n, step.tool.Name, got, want)
		}
	}
	f := &view.Frame{Answers: nic("eth0", 5), Buffers: reused}
	nicTable(nil, f)
	if n := testing.AllocsPerRun(5, func() { nicTable(nil, f) }); n > 12 {
		t.Errorf("%v allocations a table", n)
	}
}
