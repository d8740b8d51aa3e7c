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

// diskPart is a device part, below another, at which its requests are counted again.
type diskPart struct {
	device, part, relation string
}

func diskPartsStat() measure.Stat {
	word := func(name, help string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word, Help: help}
	}
	return measure.Stat{
		ID:   "disk.parts",
		Kind: measure.Level,
		Unit: measure.Count,
		Fold: measure.Max,
		Help: "1 for each device that serves another's requests: both count them, and if one " +
			"disk is full, both are (/sys/block/*/slaves, holders)",
		Fields: []measure.Field{word("device", "the device above: the one that programs or "+
			"file systems use"),
			word("part", "the device below, which serves it"),
			word("relation", "partition; multipath (dm or NVMe); raid0 raid1 raid5 ... linear "+
				"(md); lvm crypt dm; file: the disk with a loop device's file; other")},
	}
}

func diskNameStat() measure.Stat {
	return measure.Stat{
		ID:   "disk.name",
		Kind: measure.Level,
		Unit: measure.Count,
		Fold: measure.Max,
		Help: "1 for each device that device mapper made (LVM, LUKS, multipath), by its name " +
			"(/sys/block/*/dm/name)",
		Fields: []measure.Field{
			{Name: "device", Type: measure.Word, Help: "name in /proc/diskstats: dm-3"},
			{Name: "name", Type: measure.Word, Help: "name in /dev/mapper: vg-root; lsblk and " +
				"iostat -N show it"},
		},
	}
}

// blockDevices finds the other devices of the machine.
type blockDevices struct {
	root   kernel.Root
	known  func(name string) bool           // reports whether /proc/diskstats has the name
	number func(major, minor uint32) string // returns the name; "": none
}

// readParts sets the devices below this one and corrects its kind. A device below a dm multipath
// device is a path to it, and the multipath device is the disk. NVMe works likewise.
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
			return // the device above reports it too
		}
	}
}

// fromSys returns the kernel's name of a device in sysfs: "cciss!c0d0" is cciss/c0d0.
func fromSys(name string) string { return strings.ReplaceAll(name, "!", "/") }

// relationOf returns how a virtual device uses those below it. The uuid of a dm device begins with
// its creator: "LVM-", "CRYPT-", "mpath-", and "part1-mpath-" for a partition of another dm device
// (kpartx).
func relationOf(root kernel.Root, name, dir string) string {
	if level := procfs.ReadSysWord(root, dir+"/md/level"); level != "" {
		return level
	}
	if uuid := procfs.ReadSysWord(root, dir+"/dm/uuid"); uuid != "" ||
		strings.HasPrefix(name, "dm-") {
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

// loopDisk returns the disk that holds the file of a loop device; "" if it has no file, or the file
// is not visible.
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

// guessKind returns the kind and parent of a device by its name. Partitions come after their disk
// in /proc/diskstats, so the disk is known.
func guessKind(b *blockDevices, name string) (kind, parent string) {
	rest := strings.TrimRight(name, "0123456789")
	if rest == name || rest == "" {
		return "disk", ""
	}
	// "sda1" of sda; "nvme0n1p1" of nvme0n1, as a name that ends in a digit takes a p before the
	// number (disk_name in block/).
	if b.known(rest) {
		return "partition", rest
	}
	if disk, ok := strings.CutSuffix(rest, "p"); ok && b.known(disk) &&
		strings.TrimRight(disk, "0123456789") != disk {
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

// nvmeDisk returns the multipath disk of an NVMe path: nvme0n1 of nvme0c1n1
// (drivers/nvme/host/multipath.c); "" for any other name.
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

// sysLink returns the target of a device's link in /sys/class/block; "" if sysfs does not have the
// device.
func sysLink(root kernel.Root, dir string) string {
	target, _ := os.Readlink(root.InSys(dir)) // ../../devices/pci0000:00/.../block/sda/sda1
	return target
}

func baseName(p string) string { return fromSys(path.Base(p)) }
