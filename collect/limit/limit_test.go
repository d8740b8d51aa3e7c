package limit

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"culprit/collect/collecttest"
	"culprit/heapbound"

	"golang.org/x/sys/unix"
)

// limitFiles are as Linux 6.12 writes them. Each number differs, so that a swap is noticed.
func limitFiles() map[string]string {
	return map[string]string{
		"proc/loadavg":                "0.69 0.41 0.20 3/94 13674\n",
		"proc/sys/kernel/threads-max": "192789\n",
		"proc/sys/kernel/pid_max":     "4194304\n",
		"proc/net/sockstat": "sockets: used 199\nTCP: inuse 5 orphan 1 tw 2 alloc 8 mem 17\n" +
			"UDP: inuse 3 mem 29\nUDPLITE: inuse 0\nRAW: inuse 0\nFRAG: inuse 0 memory 0\n",
		"proc/sys/net/ipv4/tcp_mem": "282435\t376583\t564870\n",
		"proc/sys/net/ipv4/udp_mem": "564873\t753167\t1129746\n",
		"proc/key-users": "    0:    12 11/10 13/1000000 250/25000000\n" +
			" 1000:     2 2/2 198/200 73/20000\n",
		"proc/sysvipc/shm": "       key      shmid perms                  size  cpid  lpid nattch\n" +
			"         0          3  1600                  4096   801   802      2\n" +
			"         7          4   600                   900   801   802      1\n",
		"proc/sysvipc/sem":        "       key      semid perms      nsems   uid\n  12 1 600 17 0\n",
		"proc/sysvipc/msg":        "       key      msqid perms      cbytes       qnum\n",
		"proc/sys/kernel/shmmni":  "4096\n",
		"proc/sys/kernel/shmall":  "1024\n",
		"proc/sys/kernel/sem":     "32000\t1024000000\t500\t31999\n",
		"proc/sys/kernel/msgmni":  "32768\n",
		"proc/sys/fs/mqueue/none": "",
		"proc/sys/fs/aio-nr":      "4096\n",
		"proc/sys/fs/aio-max-nr":  "65537\n",
	}
}

func TestLimits(t *testing.T) {
	page := float64(os.Getpagesize())
	m := collecttest.NewMachine(t, Limits{}, limitFiles())
	rows := m.Read(true)
	collecttest.Expect(t, rows, "limit.used", map[string]float64{
		"limit.used|threads|":        94,
		"limit.used|pids|":           94,
		"limit.used|tcp-memory|":     17 * page,
		"limit.used|udp-memory|":     29 * page,
		"limit.used|keys|0":          13,
		"limit.used|key-bytes|0":     250,
		"limit.used|keys|1000":       198,
		"limit.used|key-bytes|1000":  73,
		"limit.used|shm-segments|":   2,
		"limit.used|shm-bytes|":      4996,
		"limit.used|semaphore-sets|": 1,
		"limit.used|semaphores|":     17,
		"limit.used|message-queues|": 0,
		"limit.used|aio-requests|":   4096,
	})
	collecttest.Expect(t, rows, "limit.size", map[string]float64{
		"limit.size|threads|":        192789,
		"limit.size|pids|":           4194304,
		"limit.size|tcp-memory|":     564870 * page,
		"limit.size|udp-memory|":     1129746 * page,
		"limit.size|keys|0":          1000000,
		"limit.size|key-bytes|0":     25000000,
		"limit.size|keys|1000":       200,
		"limit.size|key-bytes|1000":  20000,
		"limit.size|shm-segments|":   4096,
		"limit.size|shm-bytes|":      1024 * page,
		"limit.size|semaphore-sets|": 31999,
		"limit.size|semaphores|":     1024000000,
		"limit.size|message-queues|": 32768,
		"limit.size|aio-requests|":   65537,
	})
}

// TestLimitsWithout: what a kernel lacks has no row, and neither has a limit that is none.
func TestLimitsWithout(t *testing.T) {
	for name, gone := range map[string]string{
		"proc/loadavg":              "threads",
		"proc/net/sockstat":         "tcp-memory",
		"proc/sys/net/ipv4/udp_mem": "udp-memory",
		"proc/key-users":            "keys",
		"proc/sysvipc/sem":          "semaphores",
		"proc/sys/kernel/msgmni":    "message-queues",
		"proc/sys/fs/aio-nr":        "aio-requests",
	} {
		files := limitFiles()
		delete(files, name)
		rows := collecttest.NewMachine(t, Limits{}, files).Read(true)
		for key := range rows {
			if strings.Contains(key, "|"+gone+"|") {
				t.Errorf("without %s: %s", name, key)
			}
		}
		if len(rows) < 10 {
			t.Errorf("without %s: only %v", name, rows)
		}
	}
	files := limitFiles()
	files["proc/sys/kernel/shmall"] = "18446744073692774399\n"
	if v, ok := collecttest.NewMachine(t, Limits{}, files).Read(true)["limit.size|shm-bytes|"]; ok {
		t.Errorf("the default of shmall is a limit: %v", v)
	}
}

// TestObjectsAreCountedNowAndThen: files that grow with their objects are read every fifth time.
func TestObjectsAreCountedNowAndThen(t *testing.T) {
	m := collecttest.NewMachine(t, Limits{}, limitFiles())
	m.Read(true)
	m.Put(map[string]string{"proc/key-users": " 1000:     2 2/2 199/200 73/20000\n",
		"proc/loadavg": "0.69 0.41 0.20 3/95 13674\n"})
	for n := 1; n <= everyReadings; n++ {
		rows := m.Read(false)
		want := 198.0
		if n == everyReadings {
			want = 199
		}
		if rows["limit.used|keys|1000"] != want || rows["limit.used|threads|"] != 95 {
			t.Errorf("reading %d: %v", n, rows)
		}
	}
}

// TestInotify checks that instances and watches are counted for the user who made them.
func TestInotify(t *testing.T) {
	m := collecttest.EmptyMachine(t)
	process := func(pid, uid, watches int) {
		dir := filepath.Join(m.Dir, "proc", strconv.Itoa(pid))
		m.Put(map[string]string{
			"proc/" + strconv.Itoa(pid) + "/status": "Name:\tx\nUid:\t5\t" + strconv.Itoa(uid) +
				"\t6\t7\n",
			"proc/" + strconv.Itoa(pid) + "/fdinfo/4": "pos:\t0\nflags:\t02004000\n" +
				strings.Repeat("inotify wd:1 ino:3e7 sdev:800013 mask:800afce\n", watches),
		})
		if err := os.MkdirAll(filepath.Join(dir, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		for fd, target := range map[string]string{"3": "/dev/null", "4": "anon_inode:inotify"} {
			if err := os.Symlink(target, filepath.Join(dir, "fd", fd)); err != nil {
				t.Fatal(err)
			}
		}
	}
	process(11, 1000, 3)
	process(12, 1000, 4)
	process(13, 0, 11)
	m.Put(map[string]string{"proc/sys/fs/inotify/max_user_instances": "128\n",
		"proc/sys/fs/inotify/max_user_watches": "65536\n"})
	m.Open(Inotify{})
	want := map[string]float64{
		"limit.used|inotify-instances|1000": 2, "limit.used|inotify-watches|1000": 7,
		"limit.used|inotify-instances|0": 1, "limit.used|inotify-watches|0": 11,
	}
	rows := m.Read(true)
	for range 100 { // a slow machine needs several readings for three processes
		if len(rows) > 0 {
			break
		}
		rows = m.Read(false)
	}
	collecttest.Expect(t, rows, "limit.used", want)
	if rows["limit.size|inotify-instances|0"] != 128 || rows["limit.size|inotify-watches|1000"] !=
		65536 {
		t.Error(rows)
	}
}

// TestInotifyOfManyFiles shows that a process of many open files is looked at in parts, and that
// its instances, the first and the last file, are counted once.
func TestInotifyOfManyFiles(t *testing.T) {
	const files = 8000
	m := collecttest.EmptyMachine(t)
	m.Put(map[string]string{
		"proc/11/status": "Name:\tx\nUid:\t5\t1000\t6\t7\n", "proc/11/fdinfo/0": "inotify wd:1\n",
		"proc/11/fdinfo/7999":                    "inotify wd:1\ninotify wd:2\n",
		"proc/sys/fs/inotify/max_user_instances": "128\n",
		"proc/sys/fs/inotify/max_user_watches":   "65536\n",
	})
	fds := filepath.Join(m.Dir, "proc/11/fd")
	if err := os.Mkdir(fds, 0o755); err != nil {
		t.Fatal(err)
	}
	for fd := range files {
		target := "socket:[7]"
		if fd == 0 || fd == files-1 {
			target = "anon_inode:inotify"
		}
		if err := os.Symlink(target, filepath.Join(fds, strconv.Itoa(fd))); err != nil {
			t.Fatal(err)
		}
	}
	m.Open(Inotify{})
	rows, readings := m.Read(true), 1
	if left := len(m.Reading.(*inotifyReading).at.fds); left == 0 || left == files {
		t.Errorf("the first reading leaves %d of %d files", left, files)
	}
	for ; len(rows) == 0 && readings < 2000; readings++ {
		rows = m.Read(false)
	}
	collecttest.Expect(t, rows, "limit.used", map[string]float64{
		"limit.used|inotify-instances|1000": 2, "limit.used|inotify-watches|1000": 3,
	})
}

// TestInotifyOfThisProcess compares with instances that this test makes.
func TestInotifyOfThisProcess(t *testing.T) {
	count := func() float64 {
		m := collecttest.EmptyMachine(t)
		m.Env.Root.Proc, m.Env.Root.Sys = "", ""
		m.Open(Inotify{})
		key := "limit.used|inotify-watches|" + strconv.Itoa(os.Geteuid())
		rows := m.Read(true)
		for range 10000 {
			if m.Reading.(*inotifyReading).whole != nil {
				break
			}
			rows = m.Read(false)
		}
		return rows[key]
	}
	before := count()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for range 50 {
		if _, err := unix.InotifyAddWatch(fd, t.TempDir(), unix.IN_CREATE); err != nil {
			t.Fatal(err)
		}
	}
	if got := count() - before; got < 50 || got > 80 { // others may come and go meanwhile
		t.Errorf("50 watches are counted as %v", got)
	}
}

// TestAsynchronousRequests compares with a context that this test makes.
func TestAsynchronousRequests(t *testing.T) {
	count := func() float64 {
		m := collecttest.EmptyMachine(t)
		m.Env.Root.Proc = ""
		m.Open(Limits{})
		return m.Read(true)["limit.used|aio-requests|"]
	}
	const requests = 700
	before := count()
	var context uintptr
	if _, _, err := unix.Syscall(unix.SYS_IO_SETUP, requests, uintptr(unsafe.Pointer(&context)),
		0); err != 0 {
		t.Skip("needs: kernel feature aio")
	}
	defer unix.Syscall(unix.SYS_IO_DESTROY, context, 0, 0)
	if got := count() - before; got < requests || got > 2*requests { // others may have some too
		t.Errorf("%d requests are counted as %v", requests, got)
	}
}

func FuzzLimitFiles(f *testing.F) {
	for _, text := range limitFiles() {
		f.Add([]byte(text))
	}
	f.Add([]byte("Uid:\t1\t2\t3\t4\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		tcp, udp := socketPages(b)
		objects, sum := tally(b, "size")
		for _, v := range []float64{tcp, udp, objects, sum, existing(b)} {
			if v < 0 {
				t.Error(v)
			}
		}
		for _, row := range appendKeys(nil, b) {
			if row.used < 0 || row.size < 0 || row.owner == "" {
				t.Error(row)
			}
		}
		effectiveUser(b)
	})
}

func BenchmarkLimits(b *testing.B)  { collecttest.BenchmarkEach(b, Limits{}) }
func BenchmarkInotify(b *testing.B) { collecttest.BenchmarkEach(b, Inotify{}) }
