package disk

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/heapbound"
)

// One full disk must be found as one, however many devices count its requests.
// A device of device mapper has the name of /dev/mapper, any other has none. A name may be changed.
func TestNamesOfMappedDevices(t *testing.T) {
	const v = "sys/devices/virtual/block/"
	m := diskMachine(t, "sda=pci/block/sda dm-0=virtual/block/dm-0 dm-1=virtual/block/dm-1",
		map[string]string{v + "dm-0/dm/name": "my--vg-root\n", v + "dm-1/dm/name": "luks home\n"})
	collecttest.Expect(t, m.Read(true), "disk.name", map[string]float64{
		"disk.name|dm-0|my--vg-root": 1, "disk.name|dm-1|luks home": 1,
	})
}

// An array that recovers onto a new member, one that waits for another to be synchronized, and a
// stripe set, which has no redundancy. A suspended volume beside one that works.
func TestStatesOfDevices(t *testing.T) {
	const v = "sys/devices/virtual/block/"
	m := diskMachine(t, "md0=virtual/block/md0 md1=virtual/block/md1 md2=virtual/block/md2 "+
		"dm-0=virtual/block/dm-0 dm-1=virtual/block/dm-1", map[string]string{
		v + "md0/md/degraded": "2\n", v + "md0/md/level": "raid6\n",
		v + "md0/md/raid_disks": "7 (6)\n", v + "md0/md/sync_action": "recover\n",
		v + "md0/md/sync_completed": "1000 / 3000\n",
		v + "md1/md/degraded":       "0\n", v + "md1/md/level": "raid1\n",
		v + "md1/md/raid_disks": "4\n", v + "md1/md/sync_action": "resync\n",
		v + "md1/md/sync_completed": "delayed\n",
		v + "md2/md/level":          "raid0\n", v + "md2/md/raid_disks": "3\n",
		v + "dm-0/dm/name": "vg-root\n", v + "dm-0/dm/suspended": "0\n",
		v + "dm-1/dm/name": "vg-data\n", v + "dm-1/dm/suspended": "1\n",
	})
	rows := m.Read(true)
	collecttest.Expect(t, rows, "disk.array", map[string]float64{
		"disk.array.missing|md0|raid6|7|recover": 2, "disk.array.missing|md1|raid1|4|resync": 0,
		"disk.array.sync|md0|recover|done": 512000, "disk.array.sync|md0|recover|total": 1536000,
	})
	collecttest.Expect(t, rows, "disk.suspended", map[string]float64{
		"disk.suspended|dm-0": 0, "disk.suspended|dm-1": 1,
	})
	m.Put(map[string]string{v + "dm-1/dm/suspended": "0\n", v + "md0/md/degraded": "1\n"})
	rows = m.Read(true)
	collecttest.Expect(t, rows, "disk.suspended", map[string]float64{
		"disk.suspended|dm-0": 0, "disk.suspended|dm-1": 0,
	})
	collecttest.Expect(t, rows, "disk.array.missing|md0", map[string]float64{
		"disk.array.missing|md0|raid6|7|recover": 1,
	})
}

func FuzzParseSync(f *testing.F) {
	f.Add("1000 / 3000")
	f.Add("none")
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		if done, total := parseSync(text); done > total || total%512 != 0 {
			t.Errorf("%q: %d of %d", text, done, total)
		}
	})
}

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
	heapbound.Fuzz(f, func(t *testing.T, name, disk string) {
		kind, parent := guessKind(
			&blockDevices{known: func(n string) bool { return n == disk }}, name,
		)
		if parent == name && name != "" || parent != "" && parent != disk ||
			(kind == "partition" || kind == "path") != (parent != "") {
			t.Errorf("%q beside %q: %s of %q", name, disk, kind, parent)
		}
	})
}
