package cases

import (
	"context"
	"flag"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of futex(2): the private variants.
const (
	futexWaitPrivate = 128
	futexWakePrivate = 129
)

func futexSleep(word *atomic.Uint32, while uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitPrivate, uintptr(while),
		0, 0, 0)
}

func futexWake(word *atomic.Uint32) {
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakePrivate, 1, 0, 0, 0)
}

// mutex is a lock as that of glibc: 0 free, 1 held, 2 held and others wait.
type mutex struct {
	word  atomic.Uint32
	_     uint32 // glibc's count: the owner is at 8
	owner atomic.Int32
}

func (m *mutex) lock() {
	if !m.word.CompareAndSwap(0, 1) {
		for m.word.Swap(2) != 0 {
			futexSleep(&m.word, 2)
		}
	}
	m.owner.Store(int32(unix.Gettid()))
}

func (m *mutex) unlock() {
	m.owner.Store(0)
	if m.word.Swap(0) == 2 {
		futexWake(&m.word)
	}
}

// spend uses CPU time, or sleeps.
func spend(d time.Duration, nap bool) {
	if nap {
		ts := unix.NsecToTimespec(int64(d))
		unix.Nanosleep(&ts, nil)
		return
	}
	for from := threadTime(); threadTime()-from < d; {
		x := uint64(1)
		for range 2000 {
			x ^= x << 13
			x ^= x >> 7
		}
		runtime.KeepAlive(x)
	}
}

// actTurn has threads that take turns at a lock, or that wait for work which comes at a rate. An
// operation is a turn, or a piece of work.
func actTurn(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	threads := f.Int("threads", 8, "threads")
	hold := f.Duration("hold", time.Millisecond, "that a turn takes")
	nap := f.Bool("nap", false, "sleep for so long, rather than use a CPU")
	rate := f.Float64("rate", 0, "pieces of work a second; 0: take turns at a lock")
	rest := f.Duration("rest", 0, "sleep between two turns")
	low := f.Int("low", 0, "nice value of the first thread")
	f.Parse(args)
	runtime.GOMAXPROCS(*threads + 2)
	m, work := &mutex{}, &atomic.Uint32{}
	turn := func() {
		m.lock()
		spend(*hold, *nap)
		m.unlock()
	}
	if *rate > 0 {
		turn = func() {
			for {
				switch n := work.Load(); {
				case n == 0:
					futexSleep(work, 0)
				case work.CompareAndSwap(n, n-1):
					spend(*hold, *nap)
					return
				}
			}
		}
	}
	for i := range *threads {
		go func() {
			runtime.LockOSThread()
			if i == 0 && *low > 0 {
				unix.Setpriority(unix.PRIO_PROCESS, 0, *low)
			}
			for ctx.Err() == nil {
				turn()
				t.ops.Add(1)
				if *rest > 0 {
					spend(*rest, true)
				}
			}
		}()
	}
	t.ready()
	if *rate == 0 {
		<-ctx.Done()
		return nil
	}
	for p := (&pace{rate: *rate}); ; {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		work.Add(1)
		futexWake(work)
	}
}

// actPingPong has two threads that hand a byte to and fro through pipes, as fast as it goes or at a
// rate. An operation is there and back.
func actPingPong(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	rate := f.Float64("rate", 0, "times a second; 0: no limit")
	f.Parse(args)
	var there, back [2]int
	for _, p := range []*[2]int{&there, &back} {
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
	}
	go func() {
		runtime.LockOSThread()
		b := make([]byte, 1)
		for {
			if n, err := unix.Read(there[0], b); n != 1 || err != nil {
				return
			}
			unix.Write(back[1], b)
		}
	}()
	runtime.LockOSThread()
	t.ready()
	p, b := &pace{rate: *rate}, make([]byte, 1)
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if _, err := unix.Write(there[1], b); err != nil {
			return err
		}
		if _, err := unix.Read(back[0], b); err != nil {
			return err
		}
		t.ops.Add(1)
	}
}
