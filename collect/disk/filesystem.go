package disk

import (
	"errors"
	"os"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Filesystems reads by statfs(2) how full each mounted file system is, as process 1 sees them. It
// reads mountinfo again only after poll(2) reports a change.
//
// It leaves out file systems that another machine or process serves, such as NFS, CIFS, FUSE and
// Ceph, and names them in a note: statfs of one whose server is gone hangs. A file system that is
// mounted at several paths is shown once, at the shortest. One without a size (proc, sysfs, cgroup)
// is not shown.
type Filesystems struct{}

// Stats returns sizes and inodes.
func (Filesystems) Stats() []measure.Stat {
	fields := func(kinds string) []measure.Field {
		return []measure.Field{
			{Name: "mount", Type: measure.Word, Help: "where it is mounted"},
			{Name: "device", Type: measure.Word, Help: "what is mounted, as in mount(8)"},
			{Name: "type", Type: measure.Word, Help: "ext4 xfs btrfs tmpfs overlay ...; " +
				"squashfs, iso9660 and erofs are always full"},
			{Name: "kind", Type: measure.Word, Help: kinds},
		}
	}
	return []measure.Stat{
		{ID: "filesystem.size", Kind: measure.Level, Unit: measure.Bytes, Help: "size of a " +
			"file system and its use (statfs); kinds overlap and do not add up",
			Fields: fields("total; used; available: to users other than root; used + available " +
				"is less than total if some is reserved for root")},
		{
			ID:     "filesystem.inodes",
			Kind:   measure.Level,
			Unit:   measure.Count,
			Help:   "inodes of a file system; no row if it creates them as needed (statfs)",
			Fields: fields("total used available"),
		},
		{
			ID:   "filesystem.access",
			Kind: measure.Level,
			Unit: measure.Count,
			Fold: measure.Max,
			Help: "1: whether a file system can be written (mountinfo); read again every ten " +
				"readings, since the kernel does not announce that it made one read-only",
			Fields: append(fields("")[:3], measure.Field{
				Name: "access",
				Type: measure.Word,
				Help: "rw; ro: mounted so; failed: read-only after an error, though mounted rw",
			}),
		},
	}
}

// Open reads the list of mounts. An error means that nothing can be measured. The caller closes the
// Reading.
func (Filesystems) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &filesystemReading{
		root:    env.Root,
		process: "self",
		statfs:  unix.Statfs,
		poll:    -1,
		words:   []string{"total", "used", "available"},
		access:  want.Stat("filesystem.access"),
		sizes:   want.Stat("filesystem.size", "filesystem.inodes"),
	}
	if seesOtherMounts(env.Root) {
		r.process, r.below = "1", env.Root.InProc("1/root")
	}
	path := env.Root.InProc(r.process + "/mountinfo")
	if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err == nil {
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
	process string // whose mounts are read: "self" or "1"
	below   string // the root directory of that process; "": that of this one
	statfs  func(path string, st *unix.Statfs_t) error
	poll    int // descriptor of mountinfo; -1: none
	mounts  []filesystem
	skipped string // a note; "": nothing was skipped
	kinds   collect.WordLabels
	words   []string
	access  bool // filesystem.access is wanted
	sizes   bool // another statistic is wanted
	age     int  // readings since the list of mounts was read
	buf     []byte
	fs      unix.Statfs_t
}

// seesOtherMounts reports whether this process has another mount namespace than process 1, whose
// file systems it can read: a service with ProtectSystem= or PrivateTmp=, or a container with the
// process IDs of its host. The machine's file systems are those of process 1. Other users than root
// need CAP_SYS_PTRACE.
func seesOtherMounts(root kernel.Root) bool {
	own, err := os.Readlink(root.InProc("self/ns/mnt"))
	if err != nil {
		return false
	}
	first, err := os.Readlink(root.InProc("1/ns/mnt"))
	if err != nil || first == own {
		return false
	}
	_, err = os.Stat(root.InProc("1/root/."))
	return err == nil
}

// accessReadings is after how many readings the options of mounts are read again.
const accessReadings = 10

// filesystem is a mounted file system whose size is read.
type filesystem struct {
	procfs.Mount
	epoch  int // of labels; -1: none yet
	labels [3]measure.Label
	why    string // why statfs fails; "": it has not yet
	access string // rw, ro or failed
}

// remote reports whether another machine or process answers statfs for the type, so that it may
// hang.
func remote(typ string) bool {
	switch typ {
	case "nfs",
		"nfs4",
		"cifs",
		"smb3",
		"smbfs",
		"9p",
		"ceph",
		"glusterfs",
		"lustre",
		"afs",
		"gfs2",
		"ocfs2",
		"orangefs",
		"beegfs",
		"gpfs",
		"pvfs2",
		"coda",
		"ncpfs",
		"virtiofs",
		"fuse",
		"fuseblk":
		return true
	}
	return strings.HasPrefix(typ, "fuse.")
}

// sizeless reports whether file systems of the type have no size. statfs shows it too, but costs a
// call.
func sizeless(typ string) bool {
	switch typ {
	case "proc",
		"sysfs",
		"cgroup",
		"cgroup2",
		"devpts",
		"mqueue",
		"debugfs",
		"tracefs",
		"securityfs",
		"bpf",
		"pstore",
		"configfs",
		"autofs",
		"binfmt_misc",
		"nsfs",
		"rpc_pipefs",
		"selinuxfs",
		"fusectl",
		"efivarfs",
		"nfsd",
		"hugetlbfs",
		"ramfs":
		return true
	}
	return false
}

// accessOf returns whether a file system can be written. writable: a mount of it is read-write. The
// kernel makes a file system read-only after an error and leaves the options of its mounts: ext4
// with errors=remount-ro (emergency_ro since Linux 6.15), btrfs, f2fs; shutdown on XFS and ext4.
func accessOf(m *procfs.Mount, writable bool) string {
	options := "," + m.Options + ","
	has := func(option string) bool { return strings.Contains(options, ","+option+",") }
	switch m.Type {
	case "squashfs", "iso9660", "erofs", "cramfs", "romfs", "udf": // read-only by their nature
		return "ro"
	}
	switch {
	case has("emergency_ro"), has("shutdown"), has("ro") && writable:
		return "failed"
	case has("ro"), !writable:
		return "ro"
	}
	return "rw"
}

// chooseMounts returns the mounts to read: each file system once, at its shortest path. Of those
// mounted over one another it takes the last, to which the path leads. skipped are the paths of
// remote ones.
func chooseMounts(all []procfs.Mount) (chosen []filesystem, skipped []string) {
	top := map[string]int{}
	for i := range all {
		top[all[i].Path] = i
	}
	at := map[string]int{}
	writable := map[string]bool{}
	for i := range all {
		if !all[i].ReadOnly {
			writable[all[i].Number] = true
		}
	}
	for i, m := range all {
		switch {
		case top[m.Path] != i || sizeless(m.Type):
		case remote(m.Type):
			skipped = append(skipped, m.Path)
		default:
			// btrfs has one number for each subvolume in statfs but only one in mountinfo, which
			// identifies the file system.
			k, had := at[m.Number]
			if !had {
				at[m.Number] = len(chosen)
				chosen = append(chosen, filesystem{Mount: m, epoch: -1})
			} else if len(m.Path) < len(chosen[k].Path) {
				chosen[k] = filesystem{Mount: m, epoch: -1}
			}
		}
	}
	for i := range chosen {
		m := &chosen[i]
		m.access = accessOf(&m.Mount, writable[m.Number])
	}
	return chosen, skipped
}

func (r *filesystemReading) list() error {
	b, err := proc.ReadProc(r.root, r.process+"/mountinfo", r.buf)
	if err != nil {
		return err
	}
	r.buf, r.age = b, 0
	var skipped []string
	r.mounts, skipped = chooseMounts(procfs.ParseMounts(b))
	r.skipped = ""
	if len(skipped) > 0 {
		more := ""
		if len(skipped) > 5 {
			skipped, more = skipped[:5], " ..."
		}
		r.skipped = "network and FUSE file systems are not read, as they may hang: " + strings.Join(
			skipped, " ",
		) + more
	}
	return nil
}

// changed reports whether mounts may have changed since the last call. mountinfo reports an
// exceptional condition to poll once for each open file (proc(5)).
func (r *filesystemReading) changed() bool {
	if r.poll < 0 {
		return true
	}
	ask := [1]unix.PollFd{{Fd: int32(r.poll), Events: unix.POLLPRI}}
	_, err := unix.Poll(ask[:], 0)
	return err != nil || ask[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0
}

func (r *filesystemReading) Read(out *collect.Out) error {
	if r.age++; r.changed() || r.access && r.age >= accessReadings {
		if err := r.list(); err != nil {
			return err
		}
	}
	r.put(out)
	return nil
}

// put reads each file system and puts its rows.
func (r *filesystemReading) put(out *collect.Out) {
	size, inodes := out.Table("filesystem.size"), out.Table("filesystem.inodes")
	if r.skipped != "" {
		size.Note(r.skipped)
		inodes.Note(r.skipped)
	}
	access := out.Table("filesystem.access")
	if r.skipped != "" {
		access.Note(r.skipped)
	}
	kinds := r.kinds.Of(out, r.words)
	for i := range r.mounts {
		m := &r.mounts[i]
		if m.epoch != out.Epoch {
			m.epoch, m.labels = out.Epoch, [3]measure.Label{
				out.Label(m.Path),
				out.Label(m.Source),
				out.Label(m.Type),
			}
		}
		if r.access {
			access.Put(1, m.labels[0], m.labels[1], m.labels[2], out.Label(m.access))
		}
		if !r.sizes {
			continue
		}
		err := r.statfs(r.below+m.Path, &r.fs)
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

// putUse puts total, used and available. Some file systems report more free space than there is, or
// a negative number when root uses its reserve. The values that follow from them are unknown.
func putUse(
	t *collect.Table, m *filesystem, kinds []measure.Label, unit float64,
	total, free, available uint64,
) {
	whole, used, left := float64(total), measure.Difference(
		float64(total), float64(free),
	), float64(available)
	if measure.Difference(whole, left) != measure.Difference(whole, left) {
		left = measure.NaN
	}
	if used != used || left != left {
		t.Note("statfs " + m.Path + " reports more free space than there is: used or available " +
			"is unknown")
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
