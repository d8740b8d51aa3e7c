package lock

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"culprit/collect/collecttest"
	"culprit/heapbound"

	"golang.org/x/sys/unix"
)

func TestParseSets(t *testing.T) {
	const text = "       key      semid perms      nsems   uid   gid  cuid  cgid      otime\n" +
		"         0          3   600         17     5     6     7     8 1764348000 1764340000\n" +
		" -12345678          4   666          1     5     6     7     8          0 1764340000\n" +
		"broken\n"
	want := []semaphoreSet{{3, 17}, {4, 1}}
	if got := parseSets([]byte(text)); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	line := "0 7 600 2 0\n"
	if got := parseSets([]byte(strings.Repeat(line, 3*mostSets))); len(got) != mostSets {
		t.Errorf("%d sets", len(got))
	}
}

// Two threads of this process wait for semaphore 2 of a set, which this process changed last.
func TestSemaphores(t *testing.T) {
	set, _, errno := unix.Syscall(unix.SYS_SEMGET, 0, 3, 0o600) // IPC_PRIVATE
	if errno != 0 {
		t.Skip("needs: kernel feature sysvipc")
	}
	done := make(chan struct{})
	const remove = 0 // IPC_RMID
	defer func() {
		unix.Syscall6(unix.SYS_SEMCTL, set, 0, remove, 0, 0, 0)
		for range 2 {
			<-done
		}
	}()
	type sembuf struct {
		number uint16
		op     int16
		flags  int16
	}
	semop := func(number uint16, op int16) {
		b := &sembuf{number, op, 0}
		unix.Syscall6(unix.SYS_SEMTIMEDOP, set, uintptr(unsafe.Pointer(b)), 1, 0, 0, 0)
	}
	semop(2, 1)
	semop(2, -1)
	for range 2 {
		go func() { semop(2, -1); done <- struct{}{} }()
	}
	m := collecttest.EmptyMachine(t)
	m.Env.Root.Proc = ""
	m.Open(Semaphores{})
	pid := os.Getpid()
	begin := "semaphore.waiters|" + strconv.Itoa(pid) + "|"
	part := fmt.Sprintf("|%d|2|%d|", set, pid)
	found := 0.0
	var rows map[string]float64
	m.Read(true)
	for end := time.Now().Add(20 * time.Second); found != 2 && time.Now().Before(end); {
		rows = m.Read(false)
		for key, v := range rows {
			if strings.HasPrefix(key, begin) && strings.Contains(key, part) {
				found = v
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if found != 2 {
		t.Fatalf("%v threads wait: %v", found, rows)
	}
	b, err := exec.Command("ipcs", "-s", "-i", strconv.Itoa(int(set))).Output()
	if err != nil {
		t.Skip("needs: tool ipcs")
	}
	// semnum value ncount zcount pid
	want := regexp.MustCompile(fmt.Sprintf(`(?m)^2\s+0\s+2\s+0\s+%d\s*$`, pid))
	if !want.Match(b) {
		t.Errorf("ipcs shows no %s:\n%s", want, b)
	}
}

func FuzzSets(f *testing.F) {
	f.Add([]byte(" -12345678          4   666          1     5     6     7     8          0 1\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		for _, s := range parseSets(b) {
			if s.id < 0 || s.size < 0 {
				t.Error(s)
			}
		}
	})
}

func BenchmarkSemaphores(b *testing.B) { collecttest.BenchmarkEach(b, Semaphores{}) }
