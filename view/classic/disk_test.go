package classic

import (
	"strings"
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// A device of device mapper is shown by its name, and -d takes either name. A partition is left out
// as before.
func TestMappedDisksHaveTheirName(t *testing.T) {
	for _, tt := range []struct {
		name    string
		devices []string
		want    string
	}{
		{"all", nil, "vg-root dm-0 vg-root\n sda -"},
		{"by name", []string{"vg-*"}, "vg-root dm-0 vg-root"},
		{"by device", []string{"dm-0"}, "vg-root dm-0 vg-root"},
		{"another", []string{"sda"}, " sda -"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := view.Options{}
			if tt.devices != nil {
				o["device"] = tt.devices
			}
			tab := Disk().Table(o, viewtest.Frame(
				viewtest.Answer(t, "disk.operations by device,direction", measure.Delta, false,
					"sda read 1", "dm-0 read 2", "sda1 read 3"),
				viewtest.Answer(t, "disk.info by device,kind,parent", measure.Level, false,
					"sda disk '' 1", "dm-0 virtual sda1 1", "sda1 partition sda 1"),
				viewtest.Answer(t, "disk.name by device,name", measure.Level, false,
					"dm-0 vg-root 1"),
			))
			var lines []string
			for i, line := range strings.Split(viewtest.Text(tab, "device", "name"), "\n") {
				lines = append(lines, tab.Rows[i].Label+" "+line)
			}
			viewtest.Expect(t, strings.Join(lines, "\n"), tt.want)
		})
	}
}

func TestDiskAwaitIsTimeOfFinishedRequests(t *testing.T) {
	tab := Disk().Table(view.Options{}, viewtest.Frame(
		viewtest.Answer(
			t, "disk.operations by device,direction", measure.Delta, false, "sda read 100",
			"sda write 0", "sda1 read 100", "loop0 read 0",
		),
		viewtest.Answer(
			t, "disk.bytes by device,direction", measure.Delta, false, "sda read 409600",
			"sda write 0",
		),
		viewtest.Answer(t, "disk.merges by device,direction", measure.Delta, false),
		viewtest.Answer(
			t, "disk.wait by device,direction", measure.Delta, false, "sda read 0.5", "sda write 0",
		),
		viewtest.Answer(t, "disk.busy by device", measure.Delta, false, "sda 1.02"),
		viewtest.Answer(t, "disk.queue by device", measure.Delta, false, "sda 0.5"),
		viewtest.Answer(t, "disk.errors by device", measure.Delta, false),
		viewtest.Answer(
			t, "disk.info by device,kind,parent", measure.Level, false, "sda disk '' 1",
			"sda1 partition sda 1", "loop0 virtual '' 1",
		),
	))
	viewtest.Expect(
		t,
		viewtest.Text(
			tab, "device", "r/s", "rkB/s", "r_await", "w_await", "aqu-sz", "%util", "rareq-sz",
		),
		"sda 100 400 5 - 0.5 100 4",
	)
}
