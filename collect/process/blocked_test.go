package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/collect/procfs"
)

const blockedStack = "[<0>] percpu_rwsem_wait+0x15f/0x1d0\n[<0>] vfs_write+0x96/0xc0\n"

// blockedFiles returns the files of a thread that waits in a call.
func blockedFiles(pid, tid int, wchan, stack, call string) map[string]string {
	task := fmt.Sprintf("proc/%d/task/%d/", pid, tid)
	return map[string]string{task + "wchan": wchan, task + "stack": stack, task + "syscall": call}
}

func TestBlocked(t *testing.T) {
	writer := fakeProcess{pid: 7, comm: "writer", state: "D", start: 600}
	reader := fakeProcess{pid: 8, comm: "reader", state: "D", start: 700}
	kernel := fakeProcess{pid: 9, comm: "kthread", state: "D", start: 1, flags: flagKernelThread}
	sleeper := fakeProcess{pid: 10, comm: "sleeper", state: "S", start: 800}
	m := newProcessMachine(t, merge(
		writer.files("50 6 7", 1, 2, 3),
		blockedFiles(7, 7, "percpu_rwsem_wait", blockedStack, "1 0x3 0x7ffe 0x1000 0x0\n"),
		map[string]string{
			"proc/7/fdinfo/3": "pos:\t0\nflags:\t02100000\nmnt_id:\t103\nino:\t11\n",
			"proc/7/mountinfo": "27 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n" +
				"103 27 7:0 / /mnt/a\\040b rw - xfs /dev/loop0 rw\n",
		},
		reader.files("60 7 8", 3, 2, 1),
		blockedFiles(8, 8, "0", "", "running\n"),
		kernel.files("70 8 9", 5, 6, 7), blockedFiles(9, 9, "worker_thread", "", ""),
		sleeper.files("80 9 10", 7, 6, 5),
	))
	if rows := m.Read(true); len(matching(rows, "process.blocked")) > 0 {
		t.Errorf("the first reading does not know what ran: %v", rows)
	}
	known := "process.blocked|7|writer|percpu_rwsem_wait|vfs_write|/mnt/a b|xfs|/dev/loop0"
	unknown := "process.blocked|8|reader|||||"
	collecttest.Expect(t, m.next(), "process.blocked", map[string]float64{known: 1, unknown: 1})

	// a thread that ran has begun another wait since
	m.Put(merge(writer.files("51 6 8", 1, 2, 3),
		blockedFiles(7, 7, "folio_wait_bit", "[<0>] ext4_sync_file+0x1/0x2\n", "running\n")))
	collecttest.Expect(t, m.next(), "process.blocked", map[string]float64{unknown: 1})
	collecttest.Expect(t, m.next(), "process.blocked", map[string]float64{unknown: 1,
		"process.blocked|7|writer|folio_wait_bit|ext4_sync_file|||": 1})
}

// A thread that writes to a device waits for the device, not for the file system of its node.
func TestBlockedOnADevice(t *testing.T) {
	writer := fakeProcess{pid: 7, comm: "writer", state: "D", start: 600}
	m := newProcessMachine(t, merge(
		writer.files("50 6 7", 1, 2, 3),
		blockedFiles(7, 7, "blkdev_direct_IO", "", "18 0x3 0x7ffe 0x1000 0x0\n"),
		map[string]string{
			"proc/7/fdinfo/3":  "pos:\t0\nflags:\t02100000\nmnt_id:\t25\nino:\t11\n",
			"proc/7/mountinfo": "25 1 0:6 / /dev rw shared:2 - devtmpfs devtmpfs rw\n",
		},
	))
	fd := filepath.Join(m.Dir, "proc/7/fd")
	if err := os.MkdirAll(fd, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/mapper/vg-data", filepath.Join(fd, "3")); err != nil {
		t.Fatal(err)
	}
	m.Read(true)
	collecttest.Expect(t, m.next(), "process.blocked", map[string]float64{
		"process.blocked|7|writer|blkdev_direct_IO||||/dev/mapper/vg-data": 1})
}

func matching(rows map[string]float64, prefix string) map[string]float64 {
	out := map[string]float64{}
	for k, v := range rows {
		if strings.HasPrefix(k, prefix) {
			out[k] = v
		}
	}
	return out
}

// The threads of a process that wait for the same are one row. The others of it run.
func TestBlockedThreads(t *testing.T) {
	p := fakeProcess{pid: 7, comm: "server", threads: 4, start: 600}
	stat := func(tid int, state string) map[string]string {
		s := fakeProcess{pid: tid, comm: "t", state: state, start: 600}.stat()
		return map[string]string{fmt.Sprintf("proc/7/task/%d/stat", tid): s}
	}
	sched := func(tid int, text string) map[string]string {
		name := fmt.Sprintf("proc/7/task/%d/", tid)
		if tid == 7 {
			return map[string]string{"proc/7/schedstat": text, name + "schedstat": text}
		}
		return map[string]string{name + "schedstat": text,
			name + "status": "voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n"}
	}
	files := merge(p.files("50 6 7", 1, 2, 3), stat(7, "R"), sched(7, "50 6 7\n"))
	for tid := 71; tid <= 73; tid++ {
		stack := "[<0>] jbd2_log_wait_commit+0x1/0x2\n"
		if tid == 73 {
			stack = "[<0>] rpc_wait_bit_killable+0x1/0x2\n"
		}
		files = merge(files, stat(tid, "D"), sched(tid, fmt.Sprintf("%d 6 7\n", tid)),
			blockedFiles(7, tid, fmt.Sprintf("wait_%d.isra.0", tid/73), stack, "-1 0x1 0x2\n"))
	}
	m := newProcessMachine(t, files)
	m.Read(true)
	m.Put(merge(p.files("90 6 8", 1, 2, 3), sched(7, "90 6 8\n")))
	collecttest.Expect(t, m.next(), "process.blocked", map[string]float64{
		"process.blocked|7|server|wait_0|jbd2_log_wait_commit|||":  2,
		"process.blocked|7|server|wait_1|rpc_wait_bit_killable|||": 1,
	})
}

// The mount of a call with a path: relative ones begin at a directory; what seems to be in the root
// file system may be behind a symbolic link.
func TestBlockedPaths(t *testing.T) {
	m := newProcessMachine(t, merge(
		fakeProcess{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1),
		map[string]string{"proc/7/mountinfo": "27 1 254:0 / / rw - ext4 /dev/vda rw\n" +
			"28 27 0:50 / /mnt rw - nfs4 host:/x rw\n" +
			"29 28 0:51 / /mnt/deep rw - ext4 /dev/sdb rw\n"}))
	for _, l := range [][2]string{{"/mnt/deep/er", "proc/7/cwd"}, {"/mnt", "proc/7/fd/5"}} {
		name := filepath.Join(m.Dir, l[1])
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(l[0], name); err != nil {
			t.Fatal(err)
		}
	}
	r := m.Reading.(*processReading)
	for _, tt := range []struct {
		name, path string
		dir        uint64
		want       string
	}{
		{"absolute", "/mnt/deep/a", 5, "/mnt/deep"},
		{"the mount point itself", "/mnt", 5, "/mnt"},
		{"only the same first letters", "/mnt2/a", 5, ""},
		{"the root file system", "/var/log/x", 5, ""},
		{"relative to the working directory", "x", 0xffffff9c, "/mnt/deep"},
		{"relative to a directory", "x/y", 5, "/mnt"},
		{"upwards", "../../x", 0xffffff9c, "/mnt"},
		{"none", "", 0xffffff9c, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const at = 64
			m.Put(map[string]string{"proc/7/mem": strings.Repeat("#", at) + tt.path + "\x00more"})
			call := procfs.Syscall{Number: openatNumber(t), Args: [3]uint64{tt.dir, at, 0}}
			got := ""
			if mount := r.mountOf(7, call); mount != nil {
				got = mount.Path
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func openatNumber(t *testing.T) uint64 {
	t.Helper()
	for n := range uint64(1000) {
		args, ok := procfs.Syscall{Number: n}.FileArgs()
		if ok && args.FD == 0 && args.Path == 1 {
			return n
		}
	}
	t.Fatal("no call with a directory and a path")
	return 0
}

// A text of a process ends at a NUL. Addresses may be anything.
func TestTextOf(t *testing.T) {
	m := newProcessMachine(t, merge(
		fakeProcess{pid: 7, comm: "a", start: 1}.files("5 5 5", 1, 1, 1),
		map[string]string{"proc/7/mem": "/a\x00"}))
	r := m.Reading.(*processReading)
	if got := r.textOf(7, 0); got != "/a" {
		t.Errorf("%q, want /a", got)
	}
	for _, at := range []uint64{3, 1 << 62, 1 << 63} {
		if got := r.textOf(7, at); got != "" {
			t.Errorf("%q at %d", got, at)
		}
	}
}
