package disk

import (
	"errors"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Filesystems asks statfs(2) of each mounted file system how full it is. /proc/self/mountinfo is read again only after the kernel
// has said, by poll(2), that it changed.
//
// File systems that other machines or processes answer for are left out and named in a note, since statfs of one whose
// server is gone waits for it without end: NFS, CIFS, FUSE, Ceph and the like. One that is mounted in several places is shown
// once, at the shortest path; one without a size (proc, sysfs, cgroup) not at all.
type Filesystems struct{}

// Stats lists sizes and inodes.
func (Filesystems) Stats() []measure.Stat {
	fields := func(kinds string) []measure.Field {
		return []measure.Field{{Name: "mount", Type: measure.Word, Help: "where it is mounted"}, {Name: "device", Type: measure.Word, Help: "what is mounted, as in mount(8)"},
			{Name: "type", Type: measure.Word, Help: "ext4 xfs btrfs tmpfs overlay ...; squashfs, iso9660 and erofs are always full"}, {Name: "kind", Type: measure.Word, Help: kinds}}
	}
	return []measure.Stat{
		{ID: "filesystem.size", Kind: measure.Level, Unit: measure.Bytes, Help: "size of a file system and what of it is used (statfs); kinds overlap and don't add up",
			Fields: fields("total; used; available: to users other than root; used + available is less than total where some is kept for root")},
		{ID: "filesystem.inodes", Kind: measure.Level, Unit: measure.Count, Help: "inodes of a file system; no row where it makes them as needed (statfs)",
			Fields: fields("total used available")},
	}
}

// Open reads the list of mounts.
func (Filesystems) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &filesystemReading{root: env.Root, statfs: unix.Statfs, poll: -1, words: []string{"total", "used", "available"}}
	if fd, err := unix.Open(env.Root.InProc("self/mountinfo"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
		r.poll = fd
	}
	if err := r.list(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

type filesystemReading struct {
	root    kernel.Root
	statfs  func(path string, st *unix.Statfs_t) error
	poll    int // of mountinfo; -1 none
	mounts  []filesystem
	skipped string // a note; "" nothing was skipped
	kinds   collect.WordLabels
	words   []string
	buf     []byte
	fs      unix.Statfs_t
}

// filesystem is a mounted file system that is asked.
type filesystem struct {
	procfs.Mount
	epoch  int // of labels; -1: none yet
	labels [3]measure.Label
	why    string // statfs fails; "" it has not yet
}

// remote says whether somebody else than this kernel answers statfs for the type, so that it may hang.
func remote(typ string) bool {
	switch typ {
	case "nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "afs", "gfs2", "ocfs2", "orangefs", "beegfs", "gpfs", "pvfs2", "coda", "ncpfs", "virtiofs", "fuse", "fuseblk":
		return true
	}
	return strings.HasPrefix(typ, "fuse.")
}

// sizeless says whether file systems of the type have no size; statfs would say so too, at the cost of a call each.
func sizeless(typ string) bool {
	switch typ {
	case "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "debugfs", "tracefs", "securityfs", "bpf", "pstore", "configfs", "autofs", "binfmt_misc", "nsfs", "rpc_pipefs", "selinuxfs", "fusectl", "efivarfs", "nfsd", "hugetlbfs", "ramfs":
		return true
	}
	return false
}

// chooseMounts gives those mounts that are worth asking: each file system once, at its shortest path, and of those mounted one upon
// another the last, for that is what its path leads to. skipped names the remote ones.
func chooseMounts(all []procfs.Mount) (chosen []filesystem, skipped []string) {
	top := map[string]int{}
	for i := range all {
		top[all[i].Path] = i
	}
	at := map[string]int{}
	for i, m := range all {
		switch {
		case top[m.Path] != i || sizeless(m.Type):
		case remote(m.Type):
			skipped = append(skipped, m.Path)
		default:
			// btrfs gives each subvolume a number of its own in statfs but one in mountinfo; the number names the file system.
			k, had := at[m.Number]
			if !had {
				at[m.Number] = len(chosen)
				chosen = append(chosen, filesystem{Mount: m, epoch: -1})
			} else if len(m.Path) < len(chosen[k].Path) {
				chosen[k] = filesystem{Mount: m, epoch: -1}
			}
		}
	}
	return chosen, skipped
}

func (r *filesystemReading) list() error {
	b, err := r.root.ReadProc("self/mountinfo", r.buf)
	if err != nil {
		return err
	}
	r.buf = b
	var skipped []string
	r.mounts, skipped = chooseMounts(procfs.ParseMounts(b))
	r.skipped = ""
	if len(skipped) > 0 {
		more := ""
		if len(skipped) > 5 {
			skipped, more = skipped[:5], " ..."
		}
		r.skipped = "network and FUSE file systems are not asked, as they may hang: " + strings.Join(skipped, " ") + more
	}
	return nil
}

// changed says whether mounts may have changed since the last call: mountinfo answers poll with an exceptional condition once for each
// open file (proc(5)).
func (r *filesystemReading) changed() bool {
	if r.poll < 0 {
		return true
	}
	ask := [1]unix.PollFd{{Fd: int32(r.poll), Events: unix.POLLPRI}}
	_, err := unix.Poll(ask[:], 0)
	return err != nil || ask[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0
}

func (r *filesystemReading) Read(out *collect.Out) error {
	if r.changed() {
		if err := r.list(); err != nil {
			return err
		}
	}
	r.put(out)
	return nil
}

// put asks each file system and puts its rows.
func (r *filesystemReading) put(out *collect.Out) {
	size, inodes := out.Table("filesystem.size"), out.Table("filesystem.inodes")
	if r.skipped != "" {
		size.Note(r.skipped)
		inodes.Note(r.skipped)
	}
	kinds := r.kinds.Of(out, r.words)
	for i := range r.mounts {
		m := &r.mounts[i]
		err := r.statfs(m.Path, &r.fs)
		if errors.Is(err, unix.ENOENT) {
			continue // unmounted since
		}
		if err != nil {
			if m.why == "" {
				m.why = "statfs " + m.Path + ": " + err.Error()
			}
			size.Note(m.why)
			inodes.Note(m.why)
			continue
		}
		if m.epoch != out.Epoch {
			m.epoch, m.labels = out.Epoch, [3]measure.Label{out.Label(m.Path), out.Label(m.Source), out.Label(m.Type)}
		}
		unit := float64(r.fs.Frsize) // blocks are counted in fragments (statvfs(3))
		if unit == 0 {
			unit = float64(r.fs.Bsize)
		}
		if r.fs.Blocks > 0 {
			putUse(size, m, kinds, unit, r.fs.Blocks, r.fs.Bfree, r.fs.Bavail)
		}
		if r.fs.Files > 0 {
			putUse(inodes, m, kinds, 1, r.fs.Files, r.fs.Ffree, r.fs.Ffree)
		}
	}
}

// putUse puts total, used and available. Some file systems have more free than there is, or a number below zero where root has used
// what is kept for it: what comes of that is unknown.
func putUse(t *collect.Table, m *filesystem, kinds []measure.Label, unit float64, total, free, available uint64) {
	whole, used, left := float64(total), measure.Difference(float64(total), float64(free)), float64(available)
	if measure.Difference(whole, left) != measure.Difference(whole, left) {
		left = measure.NaN
	}
	if used != used || left != left {
		t.Note("statfs " + m.Path + " has more free than there is: what is used or available is unknown")
	}
	for i, v := range [3]float64{whole, used, left} {
		t.Put(v*unit, m.labels[0], m.labels[1], m.labels[2], kinds[i])
	}
}

func (r *filesystemReading) Close() {
	if r.poll >= 0 {
		unix.Close(r.poll)
		r.poll = -1
	}
}
