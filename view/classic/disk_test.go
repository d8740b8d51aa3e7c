package classic

import (
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

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
