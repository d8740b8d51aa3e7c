package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/heapbound"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Each column grows by another prime, so that a swap of two columns shows.
func TestDisks(t *testing.T) {
	const (
		vdaBefore = " 254 0 vda 100 10 1000 50 200 20 2000 4294967290 3 500 600 5 4 10 1 7 8\n"
		// The write wait wraps at 2^32. Inflight is below zero.
		vdaAfter = " 254 0 vda 111 12 1101 63 219 23 2037 11 4294967295 699 1099 12 9 33 30 38 49\n"
		vdb      = " 254 0 vdb 1 0 8 1 0 0 0 0 0 1 1\n"
	)
	m := collecttest.NewMachine(t, Disks{}, map[string]string{"proc/diskstats": vdaBefore})
	read := func(text string) map[string]float64 {
		m.Put(map[string]string{"proc/diskstats": text})
		return m.Read(false)
	}
	first := map[string]float64{"disk.inflight|vda": 3}
	collecttest.Expect(t, m.Read(true), "disk.inflight", first)
	rows := read(vdaAfter + "   7 0 loop0 1 2 3 4 5 6 7 8 0 10 11\n" + "broken line\n 8 1 sdz 1 2\n")
	collecttest.Expect(t, rows, "", map[string]float64{
		"disk.operations|vda|read":    11,
		"disk.operations|vda|write":   19,
		"disk.operations|vda|discard": 7,
		"disk.operations|vda|flush":   31,
		"disk.merges|vda|read":        2,
		"disk.merges|vda|write":       3,
		"disk.merges|vda|discard":     5,
		"disk.bytes|vda|read":         101 * 512,
		"disk.bytes|vda|write":        37 * 512,
		"disk.bytes|vda|discard":      23 * 512,
		"disk.wait|vda|read":          13e6,
		"disk.wait|vda|write":         17e6,
		"disk.wait|vda|discard":       29e6,
		"disk.wait|vda|flush":         41e6,
		"disk.busy|vda":               199e6,
		"disk.queue|vda":              499e6,
		"disk.inflight|vda":           0,
		"disk.inflight|loop0":         0, // came meanwhile: nothing to compare with yet
		"disk.info|vda|disk|||":       1,
		"disk.info|loop0|virtual|||":  1,
		"disk.info|sdz|disk|||":       1, // its line is too short for anything else
	})
	// The next interval of the new device; a kernel with 11 columns has no discards.
	rows = read(vdaAfter + "   7 0 loop0 2 2 5 4 5 6 7 8 0 10 11\n")
	collecttest.Expect(t, rows, "disk.operations|loop0", map[string]float64{
		"disk.operations|loop0|read": 1, "disk.operations|loop0|write": 0,
	})
	collecttest.Expect(t, rows, "disk.bytes|loop0", map[string]float64{
		"disk.bytes|loop0|read": 1024, "disk.bytes|loop0|write": 0,
	})
	// Another disk with the same number has nothing to compare with; and one counter was reset.
	rows = read(vdb + "   7 0 loop0 0 2 5 4 5 6 7 8 0 10 11\n")
	collecttest.Expect(t, rows, "disk.operations", map[string]float64{
		"disk.operations|loop0|read": measure.NaN, "disk.operations|loop0|write": 0,
	})
	if !strings.Contains(m.Notes(), "backwards") {
		t.Errorf("notes %q", m.Notes())
	}
}

func FuzzDiskLine(f *testing.F) {
	f.Add([]byte(" 254       0 vda 68939 11028 3277930 14748 10238 22855 2633336 5007 0 6408 " +
		"20190 6989 54 1367384 414 645 19"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if d, ok := parseDiskLine(b); ok &&
			(d.columns > 0 && d.columns < 11 || len(d.name) == 0 || d.times[0] >= 1<<32) {
			t.Fatalf("%q: %+v", b, d)
		}
	})
}

func TestDiskInfo(t *testing.T) {
	m := collecttest.NewMachine(t, Disks{}, map[string]string{
		"proc/diskstats": "8 0 sda 1 0 0 0 0 0 0 0 0 0 0\n8 1 sda1 1 0 0 0 0 0 0 0 0 0 0\n253 " +
			"0 dm-0 1 0 0 0 0 0 0 0 0 0 0\n259 0 nvme0n1 1 0 0 0 0 0 0 0 0 0 0\n259 1 " +
			"nvme0c1n1 1 0 0 0 0 0 0 0 0 0 0\n9 0 md0 1 0 0 0 0 0 0 0 0 0 0\n",
		"sys/devices/pci/block/sda/queue/rotational": "1\n", "sys/devices/pci/block/sda/queue/scheduler": "none [mq-deadline] kyber\n",
		"sys/devices/pci/block/sda/sda1/partition": "1\n", "sys/devices/pci/block/sda/device/ioerr_cnt": "0x1f\n",
		"sys/devices/virtual/block/dm-0/slaves/sda1/dev": "", "sys/devices/virtual/block/dm-0/slaves/sdb1/dev": "",
		"sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1/queue/rotational": "0\n",
		"sys/devices/pci/nvme/nvme1/nvme0c1n1/hidden":                              "1\n",
		"sys/devices/virtual/block/md0/md/dev-sda1/errors":                         "3\n", "sys/devices/virtual/block/md0/md/dev-sdb1/errors": "1\n",
	})
	dir := filepath.Join(m.Dir, "sys/class/block")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"sda": "pci/block/sda", "sda1": "pci/block/sda/sda1", "dm-0": "virtual/block/dm-0", "md0": "virtual/block/md0",
		"nvme0n1": "virtual/nvme-subsystem/nvme-subsys0/nvme0n1", "nvme0c1n1": "pci/nvme/nvme1/nvme0c1n1"} {
		if err := os.Symlink("../../devices/"+target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	collecttest.Expect(
		t,
		m.Read(true),
		"disk.info",
		map[string]float64{
			"disk.info|sda|disk||1|mq-deadline":          1,
			"disk.info|sda1|partition|sda|1|mq-deadline": 1,
			"disk.info|dm-0|virtual|sda1,sdb1||":         1,
			"disk.info|nvme0n1|disk||0|":                 1,
			"disk.info|nvme0c1n1|path|nvme0n1||":         1,
			"disk.info|md0|virtual|||":                   1,
		},
	)
	m.Put(
		map[string]string{
			"sys/devices/pci/block/sda/device/ioerr_cnt":       "0x21\n",
			"sys/devices/virtual/block/md0/md/dev-sdb1/errors": "4\n",
		},
	)
	collecttest.Expect(
		t, m.Read(false), "disk.errors",
		map[string]float64{"disk.errors|sda": 2, "disk.errors|md0": 3},
	)
	if strings.Contains(m.Notes(), "no disk here") {
		t.Errorf("notes %q", m.Notes())
	}
}

const mountsFile = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
30 27 254:0 /sub /run/bind rw - ext4 /dev/vda rw
31 27 0:40 / /a\040b rw - tmpfs tmp\040fs rw
32 27 0:50 / /nfs rw - nfs4 server:/x rw
33 27 0:51 / /home/u/.gvfs rw - fuse.gvfsd gvfsd rw
34 27 0:60 / /over rw - tmpfs below rw
35 27 0:61 / /over rw - xfs /dev/vdb rw
36 27 0:62 / /gone rw - xfs /dev/vdc rw
37 27 0:63 / /broken rw - xfs /dev/vdd rw
nonsense
`

func TestFilesystems(t *testing.T) {
	m := collecttest.NewMachine(
		t, Filesystems{}, map[string]string{"proc/self/mountinfo": mountsFile},
	)
	asked := map[string]bool{}
	m.Reading.(*filesystemReading).statfs = func(path string, fs *unix.Statfs_t) error {
		asked[path] = true
		switch path {
		case "/gone":
			return unix.ENOENT
		case "/broken":
			return unix.EIO
		}
		*fs = unix.Statfs_t{
			Bsize:  1 << 20,
			Frsize: 4096,
			Blocks: 100,
			Bfree:  40,
			Bavail: 30,
			Files:  10,
			Ffree:  4,
		}
		if path == "/over" {
			fs.Files = 0 // as btrfs does
		}
		return nil
	}
	size := func(row string, total float64) map[string]float64 {
		return map[string]float64{
			"filesystem.size|" + row + "|total":     total,
			"filesystem.size|" + row + "|used":      total * .6,
			"filesystem.size|" + row + "|available": total * .3,
		}
	}
	want := map[string]float64{}
	for _, row := range []string{"/|/dev/vda|ext4", "/a b|tmp fs|tmpfs", "/over|/dev/vdb|xfs"} {
		for k, v := range size(row, 409600) {
			want[k] = v
		}
	}
	rows := m.Read(true)
	collecttest.Expect(t, rows, "filesystem.size", want)
	collecttest.Expect(
		t,
		rows,
		"filesystem.inodes|/|",
		map[string]float64{
			"filesystem.inodes|/|/dev/vda|ext4|total":     10,
			"filesystem.inodes|/|/dev/vda|ext4|used":      6,
			"filesystem.inodes|/|/dev/vda|ext4|available": 4,
		},
	)
	collecttest.Expect(t, rows, "filesystem.inodes|/over", nil)
	for _, n := range []string{"/nfs", "/home/u/.gvfs", "statfs /broken: input/output error"} {
		if !strings.Contains(m.Notes(), n) {
			t.Errorf("%s is not in the notes %q", n, m.Notes())
		}
	}
	for _, path := range []string{"/nfs", "/home/u/.gvfs", "/proc", "/run/bind"} {
		if asked[path] {
			t.Error("asked " + path)
		}
	}
}

func FuzzMounts(f *testing.F) {
	f.Add([]byte(mountsFile))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		chosen, _ := chooseMounts(procfs.ParseMounts(b))
		seen := map[string]bool{}
		for _, m := range chosen {
			if seen[m.Path] || m.Path == "" {
				t.Fatalf("%q twice in %+v", m.Path, chosen)
			}
			seen[m.Path] = true
		}
	})
}

// The counters of /proc/diskstats and those of sysfs agree on the running kernel.
func TestDisksOfThisMachine(t *testing.T) {
	if _, err := os.Stat("/proc/diskstats"); err != nil {
		t.Skip("needs: kernel feature CONFIG_BLOCK")
	}
	out := collect.NewOut(Disks{}.Stats(), collect.NewDictionary(), true)
	r, err := Disks{}.Open(&collect.Env{}, collecttest.WantAll(Disks{}))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out.Start(true, time.Now())
	if err := r.Read(out); err != nil {
		t.Fatal(err)
	}
	rows := collecttest.RowsOf(t, out)
	infos := 0
	for k, v := range rows {
		if v < 0 {
			t.Errorf("%s = %v", k, v)
		}
		if strings.HasPrefix(k, "disk.info|") {
			infos++
			dev := strings.Split(k, "|")[1]
			// sysfs shows the same counters: finished reads can only have grown since.
			b, err := os.ReadFile("/sys/class/block/" + dev + "/stat")
			if err != nil {
				continue
			}
			var now uint64
			fmt.Sscan(string(b), &now)
			if was := rows["disk.operations|"+dev+"|read"]; was > float64(now) ||
				was < float64(now)*0.5-100 {
				t.Errorf("%s: %v reads by diskstats, %d by sysfs", dev, was, now)
			}
		}
	}
	if infos == 0 {
		t.Error("no devices")
	}
}

func BenchmarkRead(b *testing.B) { collecttest.BenchmarkEach(b, Disks{}, Filesystems{}) }
