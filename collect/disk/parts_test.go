package disk

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/collect/collecttest"
)

// One full disk must be found as one, however many devices count its requests.
func TestDiskParts(t *testing.T) {
	const v = "sys/devices/virtual/block/"
	for name, c := range map[string]struct {
		disks string // "name=target" in /sys/devices
		files map[string]string
		parts string // "device part relation, ..."
		kinds string // "device kind parent, ..."
	}{
		"partitions": {"sda=pci/block/sda sda1=pci/block/sda/sda1", map[string]string{"sys/devices/pci/block/sda/sda1/partition": "1\n"},
			"sda1 sda partition", "sda disk -, sda1 partition sda"},
		"mirror of partitions": {"sda=pci/block/sda sda3=pci/block/sda/sda3 sdb=pci/block/sdb " +
			"sdb3=pci/block/sdb/sdb3 md0=virtual/block/md0",
			map[string]string{"sys/devices/pci/block/sda/sda3/partition": "3\n", "sys/devices/pci/block/sdb/sdb3/partition": "3\n",
				v + "md0/md/level": "raid1\n", v + "md0/slaves/sda3/dev": "", v + "md0/slaves/sdb3/dev": ""},
			"sda3 sda partition, sdb3 sdb partition, md0 sda3 raid1, md0 sdb3 raid1", "md0 virtual sda3,sdb3, sda disk -, sdb disk -"},
		"dm multipath under a volume": {"sda=pci/block/sda sdb=pci/block/sdb " +
			"dm-0=virtual/block/dm-0 dm-1=virtual/block/dm-1",
			map[string]string{v + "dm-0/dm/uuid": "mpath-3600508b4000156d700012000000b0000\n", v + "dm-0/slaves/sda/dev": "", v + "dm-0/slaves/sdb/dev": "",
				"sys/devices/pci/block/sda/holders/dm-0/dev": "", "sys/devices/pci/block/sdb/holders/dm-0/dev": "",
				v + "dm-1/dm/uuid": "LVM-abc\n", v + "dm-1/slaves/dm-0/dev": ""},
			"dm-0 sda multipath, dm-0 sdb multipath, dm-1 dm-0 lvm", "dm-0 disk -, sda path " +
				"dm-0, sdb path dm-0, dm-1 virtual dm-0"},
		"crypt and kpartx": {"sda=pci/block/sda dm-0=virtual/block/dm-0 dm-1=virtual/block/dm-1",
			map[string]string{v + "dm-0/dm/uuid": "CRYPT-LUKS2-1f\n", v + "dm-0/slaves/sda/dev": "", v + "dm-1/dm/uuid": "part1-CRYPT-1f\n", v + "dm-1/slaves/dm-0/dev": "",
				"sys/devices/pci/block/sda/holders/dm-0/dev": ""},
			"dm-0 sda crypt, dm-1 dm-0 partition", "sda disk -, dm-0 virtual sda, dm-1 virtual " +
				"dm-0"},
		"NVMe multipath": {"nvme0n1=virtual/nvme-subsystem/nvme-subsys0/nvme0n1 " +
			"nvme0c0n1=pci/nvme/nvme0/nvme0c0n1 nvme0c1n1=pci/nvme/nvme1/nvme0c1n1",
			map[string]string{"sys/devices/pci/nvme/nvme0/nvme0c0n1/hidden": "1\n", "sys/devices/pci/nvme/nvme1/nvme0c1n1/hidden": "1\n",
				"sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/queue/rotational": "0\n"},
			"nvme0n1 nvme0c0n1 multipath, nvme0n1 nvme0c1n1 multipath", "nvme0n1 disk -, " +
				"nvme0c0n1 path nvme0n1, nvme0c1n1 path nvme0n1"},
		"a slash in a name": {"cciss/c0d0=pci/block/cciss!c0d0 " +
			"cciss/c0d0p1=pci/block/cciss!c0d0/cciss!c0d0p1",
			map[string]string{"sys/devices/pci/block/cciss!c0d0/cciss!c0d0p1/partition": "1\n"},
			"cciss/c0d0p1 cciss/c0d0 partition", "cciss/c0d0 disk -, cciss/c0d0p1 partition " +
				"cciss/c0d0"},
		"no sysfs": {"loop0= ram0= zram1= sda= sda1= sda12= nvme0n1= nvme0n1p2= nvme1c3n1= " +
			"nvme1n1= mmcblk0= mmcblk0p1= xvda1= dm-3= md127= vdb= loop0p1=", nil,
			"sda1 sda partition, sda12 sda partition, nvme0n1p2 nvme0n1 partition, mmcblk0p1 " +
				"mmcblk0 partition, loop0p1 loop0 partition, nvme1n1 nvme1c3n1 multipath",
			"loop0 virtual -, ram0 virtual -, zram1 virtual -, sda disk -, sda1 partition sda, " +
				"sda12 partition sda, nvme0n1 disk -, nvme0n1p2 partition nvme0n1, " +
				"nvme1c3n1 path nvme1n1, nvme1n1 disk -, mmcblk0p1 partition mmcblk0, xvda1 " +
				"disk -, dm-3 virtual -, md127 virtual -, vdb disk -"},
	} {
		t.Run(name, func(t *testing.T) {
			rows := diskMachine(t, c.disks, c.files).Read(true)
			want := map[string]float64{}
			for p := range strings.SplitSeq(c.parts, ", ") {
				want["disk.parts|"+strings.ReplaceAll(p, " ", "|")] = 1
			}
			collecttest.Expect(t, rows, "disk.parts", want)
			for k := range strings.SplitSeq(c.kinds, ", ") {
				row := "disk.info|" + strings.ReplaceAll(
					strings.ReplaceAll(k, " ", "|"), "|-", "|",
				) + "|"
				if found := strings.Count(fmt.Sprint(rows), row); found != 1 {
					t.Errorf("%d rows %s in %v", found, row, rows)
				}
			}
		})
	}
}

// diskMachine has the devices "name=target ...". Each is idle and has a link in /sys/class/block to
// its target, if it has one.
func diskMachine(t *testing.T, disks string, files map[string]string) *collecttest.Machine {
	text, links := "", map[string]string{}
	for i, d := range strings.Fields(disks) {
		name, target, _ := strings.Cut(d, "=")
		text += fmt.Sprintf("8 %d %s 1 0 0 0 0 0 0 0 0 0 0\n", i, name)
		if target != "" {
			links[strings.ReplaceAll(name, "/", "!")] = target
		}
	}
	files = maps.Clone(files)
	if files == nil {
		files = map[string]string{}
	}
	files["proc/diskstats"] = text
	m := collecttest.NewMachine(t, Disks{}, files)
	dir := filepath.Join(m.Dir, "sys/class/block")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range links {
		if err := os.MkdirAll(filepath.Join(m.Dir, "sys/devices", target), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("../../devices/"+target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func FuzzGuessKind(f *testing.F) {
	f.Add("sda1", "sda")
	f.Add("nvme0n1p1", "nvme0n1")
	f.Fuzz(func(t *testing.T, name, disk string) {
		kind, parent := guessKind(
			&blockDevices{known: func(n string) bool { return n == disk }}, name,
		)
		if parent == name && name != "" || parent != "" && parent != disk ||
			(kind == "partition" || kind == "path") != (parent != "") {
			t.Errorf("%q beside %q: %s of %q", name, disk, kind, parent)
		}
	})
}
