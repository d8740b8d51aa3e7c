package disk

import (
	"os"
	"path"
	"strings"

	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// diskPart says that a request to device is counted again at part, which is below it.
type diskPart struct {
	device, part, relation string
}

func diskPartsStat() measure.Stat {
	word := func(name, help string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word, Help: help}
	}
	return measure.Stat{ID: "disk.parts", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
		Help: "1 for each device that serves another's requests: both count them, and one full disk is full in both (/sys/block/*/slaves, holders)",
		Fields: []measure.Field{word("device", "the device above: what programs or file systems use"),
			word("part", "the device below, which serves it"),
			word("relation", "partition; multipath (dm or NVMe); raid0 raid1 raid5 ... linear (md); lvm crypt dm; file: the disk with a loop device's file; other")}}
}

// blockDevices is what may be asked of the other devices of the machine.
type blockDevices struct {
	root   kernel.Root
	known  func(name string) bool           // a device of that name is in /proc/diskstats
	number func(major, minor uint32) string // its name; "" there is none
}

// readParts sets what the device is made of, and corrects its kind: what lies below a dm multipath device is a path to it, and that
// device is the disk, as with NVMe.
func (i *diskInfo) readParts(b *blockDevices, name, dir string) {
	add := func(device, part, relation string) {
		i.parts = append(i.parts, diskPart{device, part, relation})
	}
	switch {
	case i.kind == "partition":
		add(name, i.parent, "partition")
		return
	case i.kind == "path":
		if i.parent != "" {
			add(i.parent, name, "multipath")
		}
		return
	case i.kind == "virtual":
		relation := relationOf(b.root, name, dir)
		if relation == "multipath" {
			i.kind = "disk"
		}
		for _, below := range names(b.root, dir+"/slaves") {
			add(name, fromSys(below), relation)
		}
		if disk := loopDisk(b, dir); disk != "" {
			add(name, disk, "file")
		}
		if i.kind == "disk" {
			i.parent = ""
		}
		return
	}
	for _, above := range names(b.root, dir+"/holders") {
		if isMultipath(b.root, "class/block/"+above) {
			i.kind, i.parent = "path", fromSys(above)
			return // the device above says so too
		}
	}
}

// fromSys returns the kernel's name of a device as sysfs writes it: "cciss!c0d0" is cciss/c0d0.
func fromSys(name string) string { return strings.ReplaceAll(name, "!", "/") }

// relationOf returns how a virtual device is made of those below it. The uuid of a dm device begins with what made it: "LVM-",
// "CRYPT-", "mpath-", and "part1-mpath-" for a partition of another dm device (kpartx).
func relationOf(root kernel.Root, name, dir string) string {
	if level := procfs.ReadSysWord(root, dir+"/md/level"); level != "" {
		return level
	}
	if uuid := procfs.ReadSysWord(root, dir+"/dm/uuid"); uuid != "" || strings.HasPrefix(name, "dm-") {
		kind, _, _ := strings.Cut(strings.ToLower(uuid), "-")
		switch {
		case kind == "mpath":
			return "multipath"
		case kind == "lvm", kind == "crypt":
			return kind
		case strings.HasPrefix(kind, "part"):
			return "partition"
		}
		return "dm"
	}
	return "other"
}

func isMultipath(root kernel.Root, dir string) bool {
	return strings.HasPrefix(procfs.ReadSysWord(root, dir+"/dm/uuid"), "mpath-")
}

// loopDisk returns the disk on which the file of a loop device lies; "" where it has none, or the file is out of sight.
func loopDisk(b *blockDevices, dir string) string {
	file := procfs.ReadSysWord(b.root, dir+"/loop/backing_file")
	if file == "" || !b.root.Real() {
		return ""
	}
	var st unix.Stat_t
	if unix.Stat(file, &st) != nil {
		return ""
	}
	return b.number(unix.Major(st.Dev), unix.Minor(st.Dev))
}

// guessKind returns kind and parent of a device of which sysfs says nothing, by its name. Partitions stand behind their disk in
// /proc/diskstats, so the disk is known.
func guessKind(b *blockDevices, name string) (kind, parent string) {
	rest := strings.TrimRight(name, "0123456789")
	if rest == name || rest == "" {
		return "disk", ""
	}
	// "sda1" of sda; "nvme0n1p1" of nvme0n1, as a name that ends in a digit takes a p before the number (disk_name in block/).
	if b.known(rest) {
		return "partition", rest
	}
	if disk, ok := strings.CutSuffix(rest, "p"); ok && b.known(disk) && strings.TrimRight(disk, "0123456789") != disk {
		return "partition", disk
	}
	for _, made := range []string{"loop", "ram", "zram", "dm-", "md"} {
		if rest == made {
			return "virtual", ""
		}
	}
	if disk := nvmeDisk(name); disk != "" && b.known(disk) {
		return "path", disk
	}
	return "disk", ""
}

// nvmeDisk returns the multipath disk of an NVMe path: nvme0n1 of nvme0c1n1 (drivers/nvme/host/multipath.c); "" of any other name.
func nvmeDisk(name string) string {
	if !strings.HasPrefix(name, "nvme") {
		return ""
	}
	c, n := strings.IndexByte(name, 'c'), strings.LastIndexByte(name, 'n')
	if c <= len("nvme") || n < c {
		return ""
	}
	return name[:c] + name[n:]
}

// sysLink returns what the link of a device in /sys/class/block points to; "" where sysfs does not know the device.
func sysLink(root kernel.Root, dir string) string {
	target, _ := os.Readlink(root.InSys(dir)) // ../../devices/pci0000:00/.../block/sda/sda1
	return target
}

func baseName(p string) string { return fromSys(path.Base(p)) }
