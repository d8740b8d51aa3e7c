package disk

import (
	"os"
	"path"
	"slices"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// diskInfo is the description of a block device in sysfs.
type diskInfo struct {
	kind       string // disk partition virtual path
	guessed    bool   // by its name, without sysfs
	parts      []diskPart
	name       string // of a dm device: that of /dev/mapper
	array      bool   // an md array with redundancy
	parent     string
	rotational string
	scheduler  string
	// each file has a number of errors; none if the device does not count them
	errors []*proc.File
}

func (i *diskInfo) close() {
	for _, f := range i.errors {
		f.Close()
	}
	i.errors = nil
}

// readDiskInfo reads /sys/class/block/NAME, in which a '/' of the name is a '!'. It guesses by the
// name if the device has gone or sysfs is not readable.
func readDiskInfo(b *blockDevices, name string, errors bool) diskInfo {
	info, root := diskInfo{kind: "disk"}, b.root
	dir := "class/block/" + strings.ReplaceAll(name, "/", "!")
	target := sysLink(root, dir)
	queue := dir
	switch {
	case target == "" && !exists(root, dir):
		info.guessed = true
		info.kind, info.parent = guessKind(b, name)
	case exists(root, dir+"/partition"):
		info.kind, info.parent = "partition", baseName(path.Dir(target))
		queue = "class/block/" + path.Base(path.Dir(target))
	case procfs.ReadSysWord(root, dir+"/hidden") == "1" && strings.HasPrefix(name, "nvme"):
		info.kind, info.parent = "path", nvmeDisk(name)
	case strings.Contains(target, "/devices/virtual/nvme-subsystem/"):
		// A multipath NVMe disk is virtual in sysfs, but is the disk itself.
	case strings.Contains(target, "/devices/virtual/"):
		info.kind = "virtual"
		info.parent = strings.Join(names(root, dir+"/slaves"), ",")
	}
	info.readParts(b, name, dir)
	info.name = procfs.ReadSysWord(root, dir+"/dm/name")
	info.array = exists(root, dir+"/md/degraded")
	info.rotational = procfs.ReadSysWord(root, queue+"/queue/rotational")
	info.scheduler = procfs.ReadSysWord(root, queue+"/queue/scheduler")
	if _, after, ok := strings.Cut(info.scheduler, "["); ok { // "none [mq-deadline] kyber"
		info.scheduler, _, _ = strings.Cut(after, "]")
	}
	if !errors || info.kind == "partition" {
		return info
	}
	for _, file := range []string{dir + "/device/ioerr_cnt"} {
		if f, err := proc.OpenSys(root, file); err == nil {
			info.errors = append(info.errors, f)
		}
	}
	if strings.HasPrefix(name, "md") {
		for _, member := range names(root, dir+"/md") {
			if strings.HasPrefix(member, "dev-") {
				if f, err := proc.OpenSys(root, dir+"/md/"+member+"/errors"); err == nil {
					info.errors = append(info.errors, f)
				}
			}
		}
	}
	return info
}

func (d *disk) setLabels(out *collect.Out) {
	d.labels = [5]measure.Label{
		out.Label(d.name),
		out.Label(d.info.kind),
		out.Label(d.info.parent),
		out.Label(d.info.rotational),
		out.Label(d.info.scheduler),
	}
}

func exists(root kernel.Root, name string) bool {
	_, err := os.Stat(root.InSys(name))
	return err == nil
}

// names returns the sorted names in a directory of sysfs; nil if it cannot be read.
func names(root kernel.Root, name string) []string {
	d, err := proc.OpenSysDir(root, name)
	if err != nil {
		return nil
	}
	defer d.Close()
	var list []string
	err = d.Names(func(n []byte, _ bool) bool {
		list = append(list, string(n))
		return true
	})
	if err != nil {
		return nil
	}
	slices.Sort(list)
	return list
}
