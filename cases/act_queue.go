package cases

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// actQueue starts workers, processes of the same name that wait at a System V semaphore. With -rate
// the first process adds a unit so often, and a worker takes one for each piece of work. Otherwise
// there is one unit: a worker takes it, works, and puts it back. An operation is a piece of work.
func actQueue(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	workers := f.Int("workers", 4, "workers")
	hold := f.Duration("hold", 2*time.Millisecond, "that a piece of work takes")
	rate := f.Float64("rate", 0, "units a second; 0: one, which is put back")
	in := f.String("in", "", "directory of a file with the name of the set, for the guardian")
	set := f.Int("set", -1, "the set of a worker; -1: this process is none")
	f.Parse(args)
	if *set >= 0 {
		return workAtSemaphore(uintptr(*set), *hold, *rate == 0)
	}
	id, _, errno := unix.Syscall(unix.SYS_SEMGET, 0, 3, 0o600) // IPC_PRIVATE
	if errno != 0 {
		return fmt.Errorf("make semaphores: %w", errno)
	}
	defer removeSemaphores(id)
	mark := filepath.Join(*in, semaphoreMark+strconv.Itoa(int(id)))
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return err
	}
	turns, stop, err := startWorkers(append(args, "-set", strconv.Itoa(int(id))), *workers, nil)
	if err != nil {
		return err
	}
	defer stop()
	go countTurns(turns, t)
	if *rate == 0 {
		semop(id, 1)
	}
	t.ready()
	for p := (&pace{rate: *rate}); *rate > 0; {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if err := semop(id, 1); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// workAtSemaphore is a worker of actQueue.
func workAtSemaphore(set uintptr, hold time.Duration, back bool) error {
	runtime.LockOSThread()
	for {
		if err := semop(set, -1); err != nil {
			return err
		}
		spend(hold, true)
		if back {
			if err := semop(set, 1); err != nil {
				return err
			}
		}
		if err := countTurn(); err != nil {
			return err
		}
	}
}

// semop adds to semaphore 2 of a set, or waits and subtracts.
func semop(set uintptr, add int16) error {
	b := &struct {
		number      uint16
		add, option int16
	}{2, add, 0}
	for {
		_, _, err := unix.Syscall6(unix.SYS_SEMTIMEDOP, set, uintptr(unsafe.Pointer(b)), 1, 0, 0, 0)
		switch err {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return fmt.Errorf("semop of set %d: %w", set, err)
		}
	}
}

// semaphoreMark begins the name of a file in the folder of a run; the number of a set ends it.
const semaphoreMark = "semaphores-"

// removeMarked removes the sets of semaphores that a run has left.
func removeMarked(dir string) {
	marks, _ := filepath.Glob(filepath.Join(dir, semaphoreMark+"*"))
	for _, m := range marks {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(m), semaphoreMark))
		if err == nil && id >= 0 {
			removeSemaphores(uintptr(id))
		}
	}
}

func removeSemaphores(set uintptr) {
	const remove = 0 // IPC_RMID
	unix.Syscall6(unix.SYS_SEMCTL, set, 0, remove, 0, 0, 0)
}
