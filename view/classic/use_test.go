package classic

import (
	"testing"

	"culprit/measure"
	"culprit/view"
	"culprit/view/viewtest"
)

// A bond counts what the devices below it do, and an array what its disks do.
func TestUseCountsTroubleOnce(t *testing.T) {
	answers := func(disks ...string) *view.Frame {
		return viewtest.Frame(
			viewtest.Answer(
				t, "net.device.info by netns,device,kind,duplex", measure.Level, false,
				"'' bond0 bond full 1", "'' eth0 ethernet full 1", "'' eth1 ethernet full 1",
			),
			viewtest.Answer(
				t, "net.device.drops by netns,device", measure.Delta, false, "'' bond0 5",
				"'' eth0 2", "'' eth1 3",
			),
			viewtest.Answer(
				t, "net.device.fifo by netns,device", measure.Delta, false, "'' bond0 1",
				"'' eth0 1",
			),
			viewtest.Answer(
				t, "net.qdisc.drops by netns,device"+wholeQueue, measure.Delta, false, "'' eth0 10",
			),
			viewtest.Answer(
				t, "net.device.errors by netns,device", measure.Delta, false, "'' bond0 7",
				"'' eth1 7",
			),
			viewtest.Answer(
				t, "disk.info by device,kind", measure.Level, false, "md0 virtual 1", "sda disk 1",
				"sda1 partition 1",
			),
			viewtest.Answer(t, "disk.errors by device", measure.Delta, false, disks...),
		)
	}
	viewtest.Expect(
		t,
		viewtest.Text(
			Use().Table(view.Options{}, answers("md0 4", "sda 3")), "network_saturation_per_s",
			"errors_per_s",
		),
		"16 10",
	)
	viewtest.Expect(
		t,
		viewtest.Text(
			Use().Table(view.Options{}, answers("md0 4")), "network_saturation_per_s",
			"errors_per_s",
		),
		"16 11",
	)
}

// The busiest disk is a real one where there is one that counts: a loop device or an array counts
// once more what its disk does.
func TestUseDiskIsARealOne(t *testing.T) {
	for _, c := range []struct {
		info, busy, queue []string
		want              string
	}{
		{[]string{"loop0 virtual 1", "vda disk 1"}, []string{"loop0 0.86", "vda 0.147"}, []string{"loop0 9", "vda 1"}, "14.7 1 vda"},
		{[]string{"md0 virtual 1", "sda disk 1", "sda1 partition 1"}, []string{"md0 0.9", "sda 0.5", "sda1 0.95"}, []string{"md0 4", "sda 2", "sda1 3"}, "50 2 sda"},
		{[]string{"zram0 virtual 1"}, []string{"zram0 0.99"}, []string{"zram0 3"}, "99 3 zram0"},
		{[]string{"dm-0 virtual 1", "nvme0c0n1 path 1"}, []string{"dm-0 0.7"}, []string{"nvme0c0n1 2"}, "70 2 dm-0"},
	} {
		f := viewtest.Frame(
			viewtest.Answer(t, "disk.info by device,kind", measure.Level, false, c.info...),
			viewtest.Answer(t, "disk.busy by device", measure.Delta, false, c.busy...),
			viewtest.Answer(t, "disk.queue by device", measure.Delta, false, c.queue...),
		)
		if got := viewtest.Text(Use().Table(view.Options{"wide": {""}}, f), "disk_util", "disk_saturation", "disk"); got != c.want {
			t.Errorf("%v: %q, want %q", c.busy, got, c.want)
		}
	}
}
