package lock

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/collect/collecttest"
	"culprit/heapbound"

	"golang.org/x/sys/unix"
)

// stat returns /proc/PID/stat.
func stat(pid, parent int, name, state string) string {
	return fmt.Sprintf("%d (%s) %s %d 6 6 0 -1 4194304\n", pid, name, state, parent)
}

// lockMachine has two processes that wait for a third one, one that waits for a file whose holder
// has ended, and a lease that is broken.
func lockMachine(t *testing.T) *collecttest.Machine {
	m := collecttest.EmptyMachine(t)
	m.Put(map[string]string{
		"proc/locks": "1: FLOCK  ADVISORY  WRITE 21 fe:00:101 0 EOF\n" +
			"1: -> FLOCK  ADVISORY  WRITE 31 fe:00:101 0 EOF\n" +
			"1:  -> FLOCK  ADVISORY  READ  32 fe:00:101 0 EOF\n" +
			"1: -> FLOCK  ADVISORY  WRITE 32 fe:00:101 0 EOF\n" +
			"2: POSIX  ADVISORY  READ  22 fe:00:102 0 EOF\n" +
			"3: FLOCK  ADVISORY  WRITE 99 fe:00:103 0 EOF\n" +
			"3: -> FLOCK  ADVISORY  WRITE 33 fe:00:103 0 EOF\n" +
			"4: OFDLCK ADVISORY  WRITE -1 fe:00:104 5 9\n" +
			"4: -> POSIX  ADVISORY  WRITE 34 fe:00:104 0 EOF\n" +
			"5: LEASE  BREAKING  WRITE 22 fe:00:105 0 EOF\n" +
			"5: -> LEASE  BREAKER   READ  35 <none>:0 0 EOF\n",
		"proc/21/stat": stat(21, 20, "a) b", "S"), "proc/21/task/21/wchan": "ep_poll",
		"proc/21/task/27/wchan": "0", "proc/21/task/28/wchan": "pipe_read",
		"proc/22/stat": stat(22, 1, "samba", "R"), "proc/22/task/22/wchan": "0",
		"proc/31/stat": stat(31, 20, "worker", "S"), "proc/32/stat": stat(32, 21, "child", "S"),
		"proc/33/stat": stat(33, 1, "late", "S"), "proc/34/stat": stat(34, 1, "fcntl", "S"),
		"proc/35/stat": stat(35, 1, "opens", "S"),
		"proc/41/stat": stat(41, 1, "inherits", "D"), "proc/41/task/41/wchan": "do_wait",
		"proc/31/syscall": fmt.Sprintf("%d 0x4 0x2 0x0 0x0 0x0 0x0 0x7ffe 0x7fff\n",
			unix.SYS_FLOCK),
		"proc/22/fdinfo/3": "pos:\t0\nlock:\t1: LEASE  BREAKING  WRITE 22 fe:00:105 0 EOF\n",
		"proc/41/fdinfo/3": "pos:\t0\nlock:\t1: FLOCK  ADVISORY  WRITE 99 fe:00:102 0 EOF\n",
		"proc/41/fdinfo/5": "pos:\t0\nlock:\t1: POSIX  ADVISORY  WRITE 41 fe:00:103 0 EOF\n" +
			"lock:\t2: FLOCK  ADVISORY  WRITE 99 fe:00:103 0 EOF\n",
		"proc/41/fdinfo/6": "lock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:104 5 9\n",
	})
	for link, target := range map[string]string{
		"31/fd/4": "/run/app/\x1block", "22/fd/3": "/srv/leased", "41/fd/3": "/wrong",
		"41/fd/5": "/run/dead", "41/fd/6": "/run/ofd",
	} {
		path := filepath.Join(m.Dir, "proc", link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	m.Open(FileLocks{})
	return m
}

func TestFileLocks(t *testing.T) {
	m := lockMachine(t)
	r := m.Reading.(*fileLockReading)
	m.Read(true)
	for range 100 { // a busy machine takes several readings to find the owners
		if m.Read(false); len(r.look.owner.sought) == 0 && len(r.look.owner.owners) == 2 {
			break
		}
		r.look.owner.rest = 0
	}
	const threads = "file.lock.waiters|"
	collecttest.Expect(t, m.Read(false), "file.lock.waiters", map[string]float64{
		threads + "31|worker|/run/app/?lock|flock|21|a) b|ep_poll,pipe_read|siblings": 1,
		threads + "32|child|/run/app/?lock|flock|21|a) b|ep_poll,pipe_read|parent":    2,
		threads + "33|late|/run/dead|flock|41|inherits|do_wait|":                      1,
		threads + "34|fcntl|/run/ofd|ofd|41|inherits|do_wait|":                        1,
		threads + "35|opens|/srv/leased|lease|22|samba|running|":                      1,
	})
	m.Put(map[string]string{"proc/locks": "2: POSIX  ADVISORY  READ  22 fe:00:102 0 EOF\n"})
	rows := m.Read(false)
	if len(rows) > 0 || len(r.look.paths) > 0 || len(r.look.owner.owners) > 0 {
		t.Errorf("nobody waits: %v, %d paths, %d owners", rows, len(r.look.paths),
			len(r.look.owner.owners))
	}
}

// A holder whose lock another process holds, when /proc/locks is read again, has released it.
func TestReleasedFileLock(t *testing.T) {
	m := lockMachine(t)
	r := m.Reading.(*fileLockReading)
	m.Read(true)
	w := fileWait{kind: "flock", file: "fe:00:109", pid: 31, holder: 21, threads: 1}
	r.whole = append(r.whole, w)
	if err := r.findSleeps(); err != nil {
		t.Fatal(err)
	}
	if got := r.sleeps[w.lock()]; got != released {
		t.Errorf("holder of a lock that is no longer there: %q", got)
	}
	w.file = "fe:00:101"
	if got := r.sleeps[w.lock()]; got != "ep_poll,pipe_read" {
		t.Errorf("holder of a lock that is there: %q", got)
	}
}

// Where nothing may be read but /proc/locks, processes and files are numbers.
func TestFileLocksUnread(t *testing.T) {
	m := collecttest.NewMachine(t, FileLocks{}, map[string]string{
		"proc/locks": "1: FLOCK  ADVISORY  WRITE 21 fe:00:101 0 EOF\n" +
			"1: -> FLOCK  ADVISORY  WRITE 31 fe:00:101 0 EOF\n" +
			"2: OFDLCK ADVISORY  WRITE -1 fe:00:104 5 9\n" +
			"2: -> OFDLCK ADVISORY  WRITE -1 fe:00:104 0 EOF\n" +
			"2: -> OFDLCK ADVISORY  WRITE 0 fe:00:104 0 EOF\n"})
	collecttest.Expect(t, m.Read(true), "file.lock.waiters", map[string]float64{
		"file.lock.waiters|31||fe:00:101|flock|21|||": 1,
		"file.lock.waiters|0||fe:00:104|ofd|0|||":     2,
	})
}

// Of 100,000 locks each reading reads a part, and rows are bounded.
func TestManyFileLocks(t *testing.T) {
	const locks = 100_000
	var text strings.Builder
	for i := range locks {
		fmt.Fprintf(&text, "%d: POSIX  ADVISORY  WRITE 21 fe:00:%d 0 EOF\n", i+1, 1000+i)
		if i%10 == 0 {
			fmt.Fprintf(&text, "%d: -> POSIX  ADVISORY  WRITE 31 fe:00:%d 0 EOF\n", i+1, 1000+i)
		}
	}
	for i := range 2 * mostPerLock {
		fmt.Fprintf(&text, "%d: -> FLOCK  ADVISORY  WRITE %d fe:00:%d 0 EOF\n", locks, 40+i, 1000+locks)
	}
	m := collecttest.NewMachine(t, FileLocks{}, map[string]string{"proc/locks": text.String()})
	r := m.Reading.(*fileLockReading)
	rows, readings := m.Read(true), 1
	if len(rows) > 0 || !strings.Contains(m.Notes(), "takes several intervals") {
		t.Errorf("%d rows after a part, %q", len(rows), m.Notes())
	}
	for ; r.going && readings < 1000; readings++ {
		rows = m.Read(false)
	}
	if len(rows) < mostRows || len(rows) > mostRows+mostPerLock || len(r.whole) != mostWaits ||
		r.more != locks/10+2*mostPerLock-mostWaits {
		t.Errorf("%d rows, %d waits and %d more after %d readings", len(rows), len(r.whole), r.more,
			readings)
	}
	if readings < text.Len()/mostLockBytes/2 {
		t.Errorf("%d readings of %d bytes", readings, text.Len())
	}
}

// Of many processes that wait for one lock some have a row, and the others are one.
func TestManyFileLockWaiters(t *testing.T) {
	text := "1: FLOCK  ADVISORY  WRITE 21 fe:00:101 0 EOF\n"
	for i := range mostPerLock + 7 {
		text += fmt.Sprintf("1: -> FLOCK  ADVISORY  WRITE %d fe:00:101 0 EOF\n", 50+i)
	}
	m := collecttest.NewMachine(t, FileLocks{}, map[string]string{"proc/locks": text})
	rows := m.Read(true)
	if v := rows["file.lock.waiters|0||fe:00:101|flock|21|||"]; v != 7 ||
		len(rows) != mostPerLock+1 {
		t.Errorf("%v others, %d rows", v, len(rows))
	}
}

// TestFileLocksOfThisProcess compares with lslocks.
func TestFileLocksOfThisProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var files [2]*os.File
	for i := range files {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	if err := unix.Flock(int(files[0].Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- unix.Flock(int(files[1].Fd()), unix.LOCK_EX) }()
	defer func() {
		unix.Flock(int(files[0].Fd()), unix.LOCK_UN)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	m := collecttest.EmptyMachine(t)
	m.Env.Root.Proc = ""
	m.Open(FileLocks{})
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	begin := fmt.Sprintf("file.lock.waiters|%d|%s|%s|flock|%d|%[2]s|", os.Getpid(),
		strings.TrimSpace(string(name)), path, os.Getpid())
	found := 0.0
	m.Read(true)
	for end := time.Now().Add(20 * time.Second); found == 0 && time.Now().Before(end); {
		for key, v := range m.Read(false) {
			if strings.HasPrefix(key, begin) {
				found = v
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if found != 1 {
		t.Fatalf("%v threads wait in %s: %v", found, begin, m.Read(false))
	}
	b, err := exec.Command("lslocks", "-rno", "PID,TYPE,MODE,BLOCKER,PATH").Output()
	if err != nil {
		t.Skip("needs: tool lslocks")
	}
	pid := strconv.Itoa(os.Getpid())
	want := pid + " FLOCK WRITE* " + pid + " " + path
	if !strings.Contains(string(b), want) {
		t.Errorf("lslocks shows no %q:\n%s", want, b)
	}
}

func FuzzLocks(f *testing.F) {
	f.Add([]byte("2: -> FLOCK  ADVISORY  WRITE 9648 fe:00:9977917 0 EOF\n"))
	f.Add([]byte("3: OFDLCK ADVISORY  READ  -1 fe:00:10060125 0 EOF\n"))
	f.Add([]byte("5: LEASE  BREAKER   READ  35 <none>:0 0 EOF\n"))
	f.Add([]byte("lock:\t1: POSIX  ADVISORY  WRITE 41 fe:00:103 0 EOF\n"))
	f.Add([]byte("9648 (a) b) S 6655 9648\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if l, ok := parseLockLine(b); ok && (l.pid < -1 || len(l.kind) == 0 ||
			len(l.file) > mostFileName) {
			t.Error(l)
		}
		if s, ok := parseStat(b); ok && s.parent < 0 {
			t.Error(s)
		}
		lockedFile(b, lockKey{})
		r := fileLockReading{page: make([]byte, 4096), pass: map[fileWait]float64{}}
		r.lines(b[:min(len(b), 4096)])
		if len(r.pass) > mostWaits {
			t.Error(len(r.pass))
		}
	})
}

func BenchmarkFileLocks(b *testing.B) { collecttest.BenchmarkEach(b, FileLocks{}) }
