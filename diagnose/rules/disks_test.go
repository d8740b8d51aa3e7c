package rules

import (
	"context"
	"slices"
	"sort"
	"testing"

	"culprit/diagnose"
)

// cannedDisk is a block device of a canned machine. A full one is always busy with forty requests;
// a silent one serves as many and counts no time.
type cannedDisk struct {
	name, kind, parent string
	state              string // full silent idle
}

func withDisks(t *testing.T, disks []cannedDisk) *canned {
	c := readCanned(t, "testdata/quiet.txt", nil)
	for _, id := range []string{"disk.info", "disk.busy", "disk.queue", "disk.wait",
		"disk.operations", "disk.bytes"} {
		c.stats[id] = &cannedStat{}
	}
	put := func(id, value string, words ...string) {
		c.stats[id].rows = append(c.stats[id].rows, cannedRow{words, []string{value}})
	}
	for _, d := range disks {
		busy, queue, ops, bytes := "0.01", "0.02", "20", "2e5"
		switch d.state {
		case "full":
			busy, queue, ops, bytes = "1", "40", "300", "60e6"
		case "silent":
			busy, queue, ops, bytes = "0", "0", "300", "60e6"
		}
		put("disk.info", "1", d.name, d.kind, d.parent, "0", "none")
		put("disk.busy", busy, d.name)
		put("disk.queue", queue, d.name)
		put("disk.wait", queue, d.name, "write")
		put("disk.operations", ops, d.name, "write")
		put("disk.bytes", bytes, d.name, "write")
	}
	c.stats["pressure.time"].rows = append(c.stats["pressure.time"].rows[:0:0],
		cannedRow{[]string{"io", "some"}, []string{"0.9"}},
		cannedRow{[]string{"cpu", "some"}, []string{"0.01"}},
		cannedRow{[]string{"memory", "some"}, []string{"0"}})
	return c
}

// TestOneFullDiskIsOneFinding: whatever is on a full disk or below it, the disk is one finding,
// with the name that programs use.
func TestOneFullDiskIsOneFinding(t *testing.T) {
	for _, tt := range []struct {
		name  string
		disks []cannedDisk
		want  []string
	}{
		{"a disk and its partition",
			[]cannedDisk{{"sda", "disk", "", "full"}, {"sda1", "partition", "sda", "full"}},
			[]string{"sda"}},
		{"a logical volume on a partition",
			[]cannedDisk{{"dm-0", "virtual", "sda2", "full"}, {"sda", "disk", "", "full"},
				{"sda2", "partition", "sda", "full"}}, []string{"sda"}},
		{"an encrypted volume on a logical one",
			[]cannedDisk{{"dm-0", "virtual", "sda2", "full"}, {"dm-1", "virtual", "dm-0", "full"},
				{"sda", "disk", "", "full"}, {"sda2", "partition", "sda", "full"}},
			[]string{"sda"}},
		{"a mirror", []cannedDisk{{"sda", "disk", "", "full"}, {"sdb", "disk", "", "full"},
			{"md0", "virtual", "sda,sdb", "full"}}, []string{"md0"}},
		{"a mirror that counts no time",
			[]cannedDisk{{"sda", "disk", "", "full"}, {"sdb", "disk", "", "full"},
				{"md0", "virtual", "sda,sdb", "silent"}}, []string{"md0"}},
		{"a volume on a mirror",
			[]cannedDisk{{"sda", "disk", "", "full"}, {"sdb", "disk", "", "full"},
				{"md0", "virtual", "sda1,sdb1", "full"},
				{"sda1", "partition", "sda", "full"}, {"sdb1", "partition", "sdb", "full"},
				{"dm-3", "virtual", "md0", "full"}}, []string{"md0"}},
		{"a mirror with one slow disk",
			[]cannedDisk{{"sda", "disk", "", "full"}, {"sdb", "disk", "", "idle"},
				{"md0", "virtual", "sda,sdb", "full"}}, []string{"sda"}},
		{"multipath of the device mapper",
			[]cannedDisk{{"sda", "disk", "", "full"}, {"sdb", "disk", "", "full"},
				{"dm-0", "virtual", "sda,sdb", "full"}}, []string{"dm-0"}},
		{"multipath of NVMe",
			[]cannedDisk{{"nvme0n1", "disk", "", "full"}, {"nvme0c0n1", "path", "nvme0n1", "full"},
				{"nvme0c1n1", "path", "nvme0n1", "full"}}, []string{"nvme0n1"}},
		{"multipath of NVMe on one path",
			[]cannedDisk{{"nvme0n1", "disk", "", "full"}, {"nvme0c0n1", "path", "nvme0n1", "full"},
				{"nvme0c1n1", "path", "nvme0n1", "idle"}}, []string{"nvme0n1"}},
		{"NVMe that counts at its paths",
			[]cannedDisk{{"nvme0n1", "disk", "", "idle"}, {"nvme0c0n1", "path", "nvme0n1", "full"},
				{"nvme0c1n1", "path", "nvme0n1", "full"}}, []string{"nvme0n1"}},
		{"two disks", []cannedDisk{{"sda", "disk", "", "full"}, {"sdb", "disk", "", "full"}},
			[]string{"sda", "sdb"}},
		{"two disks below an idle volume",
			[]cannedDisk{{"sda", "disk", "", "full"}, {"sdb", "disk", "", "full"},
				{"dm-0", "virtual", "sda,sdb", "idle"}}, []string{"sda", "sdb"}},
		{"two mirrors", []cannedDisk{{"sda", "disk", "", "full"}, {"sdb", "disk", "", "full"},
			{"sdc", "disk", "", "full"}, {"sdd", "disk", "", "full"},
			{"md0", "virtual", "sda,sdb", "full"}, {"md1", "virtual", "sdc,sdd", "full"}},
			[]string{"md0", "md1"}},
		{"only the volume is in sight", []cannedDisk{{"dm-0", "virtual", "", "full"}},
			[]string{"dm-0"}},
		{"in a circle",
			[]cannedDisk{{"dm-0", "virtual", "dm-1", "full"}, {"dm-1", "virtual", "dm-0", "full"}},
			[]string{"dm-1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := withDisks(t, tt.disks)
			rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range rep.Findings {
				got = append(got, f.ID)
			}
			sort.Strings(got)
			var want []string
			for _, name := range tt.want {
				want = append(want, "disk-saturated/"+name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("findings %v, want %v", got, want)
			}
			wellFormed(t, rep)
		})
	}
}
