package cases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Filesystem makes an ext4 file system of a size in a file, mounted in the run's folder. options
// are those of mkfs.ext4.
func (l *Lab) Filesystem(name string, megabytes int64, options ...string) (mount string) {
	mount = filepath.Join(l.dir, name)
	image := mount + ".img"
	if l.err != nil {
		return mount
	}
	f, err := os.Create(image)
	if err != nil {
		l.fail(fmt.Errorf("make an image: %w", err))
		return mount
	}
	l.fail(f.Truncate(megabytes << 20))
	f.Close()
	l.fail(os.Mkdir(mount, 0o777))
	l.tool("mkfs.ext4", append([]string{"-q", "-F", image}, options...)...)
	l.tool("mount", "-o", "loop,errors=remount-ro", image, mount)
	return mount
}

// unmount unmounts what a run mounted below its folder.
func unmount(dir string) {
	for _, mount := range mountsBelow(dir) {
		quicken(mount) // its dirty pages are written now
		unix.Unmount(mount, unix.MNT_DETACH)
	}
}

func mountsBelow(dir string) []string {
	var all []string
	b, _ := os.ReadFile("/proc/self/mounts")
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[1], dir+"/") {
			all = append(all, f[1])
		}
	}
	return all
}

// Ioctls of include/uapi/linux/fs.h: _IOWR('X', 119, int) and 120.
const (
	ioctlFreeze = 0xc0045877 // FIFREEZE
	ioctlThaw   = 0xc0045878 // FITHAW
)

// thaw releases the file systems that a run froze.
func thaw(dir string) {
	for _, mount := range mountsBelow(dir) {
		freezing(mount, ioctlThaw) // fails for one that is not frozen
	}
}

func freezing(mount string, request uint) error {
	f, err := os.Open(mount)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), request, 0); err != nil {
		return fmt.Errorf("freeze or thaw %s: %w", mount, err)
	}
	return nil
}

// failures is how many attempts of a load failed.
func failures(d *Load, low, high float64) Range {
	return Range{What: "failed attempts", Low: low, High: high, Unit: "1/s",
		Read: func() (float64, time.Time) { c := d.Count(); return float64(c.Errors), c.At }}
}

// done is how many attempts of a load succeeded.
func done(d *Load, low, high float64) Range {
	return Range{What: "attempts", Low: low, High: high, Unit: "1/s",
		Read: func() (float64, time.Time) { c := d.Count(); return float64(c.Ops), c.At }}
}

// reachedStories are limits that are reached, each with a twin that uses as much and stays below.
// Those that every diagnosis of the machine sees play alone.
func reachedStories() []Story {
	loop := func() string { return needTool("mkfs.ext4") }
	return []Story{
		{Name: "filesystem-full", Needs: loop, Twin: "filesystem-busy",
			Help:  "a program writes 20 times a second to a full file system",
			build: logging(0)},
		{Name: "filesystem-busy", Light: true, Needs: loop,
			Help:  "the same over and over the same file, that fills 85 % of it",
			build: logging(32 << 20)},
		{Name: "inodes-full", Needs: loop, Twin: "inodes-busy",
			Help:  "a program creates files in a file system without a free inode",
			build: spooling(0)},
		{Name: "inodes-busy", Light: true, Needs: loop,
			Help:  "the same, and it removes the oldest ones: 85 % are used",
			build: spooling(1100)},
		{Name: "filesystem-read-only", Needs: loop, Twin: "filesystem-busy",
			Help:  "a program writes to a file system that the kernel made read-only after an error",
			build: failing},
		{Name: "calls-fail", Twin: "calls-succeed",
			Help:  "a program writes 20 times a second to a file that is as large as it may be",
			build: writingAtMost(0)},
		{Name: "calls-succeed", Light: true,
			Help:  "the same, and it begins at the start of the file again",
			build: writingAtMost(1 << 20)},
		{Name: "files-limit", Twin: "files-busy",
			Help:  "a process opens files and may not open more",
			build: opening(0)},
		{Name: "files-busy", Light: true,
			Help:  "the same, and it closes the oldest ones: 85 % are used",
			build: opening(170)},
		{Name: "ports-exhausted", Light: true, Twin: "ports-busy",
			Help:  "a client has a connection to one server from each of its 101 ports",
			build: connecting(0)},
		{Name: "ports-busy", Light: true,
			Help:  "the same, and it closes the oldest ones at once: 30 are open",
			build: connecting(30)},
		{Name: "pids-limit", Light: true, Twin: "pids-busy", Needs: needForks,
			Help:  "a process creates others in a cgroup that is full",
			build: forking(40)},
		{Name: "pids-busy", Light: true, Needs: needForks,
			Help:  "the same in a cgroup that may have ten times as many",
			build: forking(400)},
		{Name: "unix-backlog", Twin: "unix-busy",
			Help:  "the server of an AF_UNIX socket accepts nobody, and its queue is full",
			build: queueing(0)},
		{Name: "unix-busy", Light: true,
			Help:  "a server of an AF_UNIX socket accepts 20 connections a second",
			build: queueing(1)},
		{Name: "io-limit", Twin: "io-busy", Needs: needIOLimit,
			Help:  "a process in a cgroup that may write 1 MB/s wants to write 20",
			build: writing(1<<20, 0)},
		{Name: "io-busy", Needs: needIOLimit,
			Help:  "the same in a cgroup that may write 200 MB/s",
			build: writing(200<<20, 0)},
		{Name: "io-limit-operations", Twin: "io-busy", Needs: needIOLimit,
			Help:  "a process in a cgroup that may write 50 times a second wants to write 250 times",
			build: writing(0, 50)},
		{Name: "inotify-limit", Twin: "inotify-busy",
			Help:  "a user has all inotify instances that he may have, and wants more",
			build: watching(0)},
		{Name: "inotify-busy", Light: true,
			Help:  "the same, and he closes the oldest ones: 80 are open",
			build: watching(80)},
	}
}

func needForks() string {
	if !HasController("pids") {
		return "kernel feature cgroup-pids"
	}
	return needTool("perl")
}

// reached completes the truth of a story: with a number to keep it is the healthy twin.
func reached(sc *Scene, d *Load, most int64, kind, name string) {
	if most > 0 {
		sc.Truth = Truth{Never: []string{"limit-reached"},
			Expect: []Range{failures(d, 0, 0), done(d, 10, 21)}}
		return
	}
	sc.Truth = Truth{Rule: "limit-reached", Kind: []string{kind}, Names: []string{name},
		Lowest: "high", Expect: []Range{failures(d, 10, 21), done(d, 0, 0)}}
}

func logging(most int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		mount := l.Filesystem("logs", 48)
		d := sc.load(Program{Name: "logger", Act: "log", Args: []string{"-file",
			filepath.Join(mount, "log"), "-most", fmt.Sprint(most)}})
		reached(sc, d, most, "filesystem", mount)
		sc.try("df -h %s", mount)
	}
}

// writingAtMost writes to a file of 1 MiB, which is the limit of the process.
func writingAtMost(most int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		d := sc.load(Program{Name: "journal", Act: "log", Args: []string{"-file",
			filepath.Join(l.Dir(), "journal"), "-most", fmt.Sprint(most), "-limit", "1048576"}})
		reached(sc, d, most, "process", d.Name)
		if most == 0 {
			sc.Truth.Rule, sc.Truth.Lowest, sc.Truth.PID = "calls-fail", "medium", d.PID
		} else {
			sc.Truth.Never = append(sc.Truth.Never, "calls-fail")
		}
		sc.try("grep 'file size' /proc/%d/limits; ls -l /proc/%d/fd", d.PID, d.PID)
	}
}

func spooling(most int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		mount := l.Filesystem("spool", 48, "-N", "1280")
		d := sc.load(Program{Name: "spooler", Act: "hold", Args: []string{"-what", "names", "-in",
			mount, "-most", fmt.Sprint(most)}})
		reached(sc, d, most, "filesystem", mount)
		sc.try("df -i %s", mount)
	}
}

func failing(l *Lab, sc *Scene, _ Options) {
	mount := l.Filesystem("data", 48)
	if l.err == nil {
		source := strings.TrimSpace(l.tool("findmnt", "-n", "-o", "SOURCE", mount))
		trigger := filepath.Join("/sys/fs/ext4", filepath.Base(source), "trigger_fs_error")
		if err := os.WriteFile(trigger, []byte("1"), 0); err != nil {
			l.fail(fmt.Errorf("damage a file system: %w", err))
		}
	}
	d := sc.load(Program{Name: "spooler", Act: "hold", Args: []string{"-what", "names", "-in",
		mount}})
	reached(sc, d, 0, "filesystem", mount)
	sc.try("findmnt -o TARGET,OPTIONS,FS-OPTIONS %s", mount)
}

func opening(most int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		d := sc.load(Program{Name: "opener", Act: "hold", Args: []string{"-what", "files", "-limit",
			"200", "-most", fmt.Sprint(most)}})
		reached(sc, d, most, "process", d.Name)
		if most == 0 {
			sc.Truth.PID = d.PID
		}
		sc.try("ls /proc/%d/fd | wc -l; grep 'open files' /proc/%d/limits", d.PID, d.PID)
	}
}

func connecting(most int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		h := l.Host("client")
		h.Set("net/ipv4/ip_local_port_range", "40000 40100")
		h.Set("net/ipv4/tcp_tw_reuse", "1")
		sc.load(Program{Name: "server", Act: "sink", On: h, Args: []string{"-at",
			"127.0.0.1:7070"}})
		args := []string{"-what", "connections", "-in", "127.0.0.1:7070", "-most",
			fmt.Sprint(most)}
		if most > 0 { // a closed connection keeps its port for a second
			args = append(args, "-rate", "15")
		}
		d := sc.load(Program{Name: "client", Act: "hold", On: h, Args: args})
		reached(sc, d, most, "peer", "127.0.0.1:7070")
		sc.Where = h
		sc.try("ip netns exec %s ss -tan", h.NS)
	}
}

func forking(limit int) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		g := l.Cgroup("pids", "jobs")
		g.Set("pids.max", fmt.Sprint(limit))
		sc.load(Program{Name: "forker", Args: []string{"sh", "-c", "echo $$ > " + g.procs() +
			`; exec perl -e 'my @k; while (1) { my $p = fork; if (defined $p && !$p) { sleep 600;
			exit } push @k, $p if $p; if (@k > 80) { my $o = shift @k; kill 9, $o; waitpid $o, 0 }
			select undef, undef, undef, 0.05 }'`}})
		refused := Range{What: "refused processes", Low: 5, High: 21, Unit: "1/s",
			Read: keyed(filepath.Join(g.Path, "pids.events"), "max")}
		if limit > 80 {
			refused.Low, refused.High = 0, 0
			sc.Truth = Truth{Never: []string{"limit-reached"}}
		} else {
			sc.Truth = Truth{Rule: "limit-reached", Kind: []string{"cgroup"},
				Names: []string{g.Name}, Lowest: "high"}
		}
		sc.Truth.Expect = []Range{refused}
		sc.try("cat %s/pids.current %s/pids.max %s/pids.events", g.Path, g.Path, g.Path)
	}
}

func watching(most int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		user := 61000 // a user of its own, so that others keep their instances
		if most > 0 {
			user++
		}
		d := sc.load(Program{Name: "watcher", Act: "hold", Args: []string{"-what", "inotify",
			"-user", fmt.Sprint(user), "-most", fmt.Sprint(most)}})
		reached(sc, d, most, "user", fmt.Sprint(user))
		sc.try("find /proc/%d/fd -lname anon_inode:inotify | wc -l", d.PID)
	}
}

func queueing(most int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		path := filepath.Join(l.dir, "app.sock")
		sc.load(Program{Name: "server", Act: "answer", Args: []string{"-at", path, "-backlog", "5",
			fmt.Sprintf("-accept=%v", most > 0)}})
		d := sc.load(Program{Name: "client", Act: "hold", Args: []string{"-what", "unix", "-in",
			path, "-most", fmt.Sprint(most)}})
		reached(sc, d, most, "socket", path)
		sc.try("ss -xl src %s", path)
	}
}

// ioController is the controller that limits traffic at disks, "" when there is none.
func ioController() string {
	for _, name := range []string{"blkio", "io"} { // version 1, version 2
		if HasController(name) {
			return name
		}
	}
	return ""
}

func needIOLimit() string {
	if ioController() == "" {
		return "kernel feature cgroup-io"
	}
	return ""
}

// writing has a process that writes past the page cache, in a cgroup with a limit in bytes per
// second or in operations per second. 0: none.
func writing(bytes, operations int64) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		disk, err := diskOf(l.dir)
		l.fail(err)
		number, err := os.ReadFile("/sys/block/" + disk + "/dev")
		l.fail(err)
		g := l.Cgroup(ioController(), "writers")
		wanted, block := 20e6, 65536
		if operations > 0 {
			wanted, block = 1e6, 4096
		}
		d := sc.load(Program{Name: "writer", Act: "write", Into: []*Cgroup{g}, Args: []string{
			"-file", filepath.Join(l.dir, "writer.data"), "-depth", "2", "-block",
			fmt.Sprint(block), "-rate", fmt.Sprint(wanted)}})
		device := strings.TrimSpace(string(number)) // limited when its file is there
		limit, file := bytes, [2]string{"wbps", "blkio.throttle.write_bps_device"}
		if operations > 0 {
			limit, file = operations, [2]string{"wiops", "blkio.throttle.write_iops_device"}
		}
		if g.V2 {
			g.Set("io.max", fmt.Sprintf("%s %s=%d", device, file[0], limit))
		} else {
			g.Set(file[1], fmt.Sprintf("%s %d", device, limit))
		}
		allowed := float64(max(bytes, operations*int64(block)))
		written := Range{What: "written", Low: 0.76 * allowed, High: 1.34 * allowed, Unit: "byte/s",
			Read: func() (float64, time.Time) { c := d.Count(); return float64(c.Bytes), c.At }}
		if allowed > wanted {
			written.Low, written.High = 0.5*wanted, 1.1*wanted
			sc.Truth = Truth{Never: []string{"limit-reached", "io-stalled"}}
		} else {
			sc.Truth = Truth{Rule: "limit-reached", Kind: []string{"cgroup"},
				Names: []string{g.Name}}
		}
		sc.Truth.Expect = []Range{written}
		sc.try("iostat -xy 1 3")
	}
}
