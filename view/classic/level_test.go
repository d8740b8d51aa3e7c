package classic

import (
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// The busiest disk is a real one; what is made of disks counts only where there is nothing else.
func TestUseNamesARealDisk(t *testing.T) {
	at := func(busy ...string) *view.Frame {
		return viewtest.Frame(
			viewtest.Answer(
				t, "disk.info by device,kind", measure.Level, false, "loop0 virtual 1",
				"zram0 virtual 1", "vda disk 1", "vda1 partition 1",
			),
			viewtest.Answer(t, "disk.busy by device", measure.Delta, false, busy...),
			viewtest.Answer(
				t, "memory.size by kind", measure.Level, false, "total 1000", "available 1004",
			),
		)
	}
	viewtest.Expect(
		t,
		viewtest.Text(
			Use().Table(view.Options{}, at("loop0 0.86", "vda 0.25", "vda1 0.93")), "disk_util",
			"memory_util",
		),
		"25 0",
	)
	viewtest.Expect(
		t,
		viewtest.Text(
			Use().Table(view.Options{}, at("loop0 0.5", "zram0 0.75")), "disk_util", "memory_util",
		),
		"75 0",
	)
}

// Swap in use is never less than none.
func TestSwapInUse(t *testing.T) {
	at := func(total, free string) string {
		sizes := viewtest.Answer(
			t, "memory.size by kind", measure.Level, false, "swap_total "+total, "swap_free "+free,
		)
		return viewtest.Text(
			Mem().Table(view.Options{}, viewtest.Frame(sizes)), "swap_used_bytes",
		)
	}
	viewtest.Expect(t, at("1048576", "1024000"), "24")
	viewtest.Expect(t, at("1048576", "1050000"), "0")
	viewtest.Expect(t, at("0", "18446744073709551488"), "-")
}
