package sampler

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// A futexWaiter is struct futex_waitv: 24 bytes.
type futexWaiter struct {
	value, address  uint64
	flags, reserved uint32
}

// waitsInVector waits in futex_waitv(2) until a time of the monotonic clock.
//
//go:noinline
func waitsInVector(until unix.Timespec) unix.Errno {
	var word uint32
	// 32 bits, private
	one := futexWaiter{address: uint64(uintptr(unsafe.Pointer(&word))), flags: 2 | 128}
	_, _, errno := unix.Syscall6(
		449, uintptr(unsafe.Pointer(&one)), 1, 0, uintptr(unsafe.Pointer(&until)),
		unix.CLOCK_MONOTONIC, 0,
	)
	runtime.KeepAlive(&word)
	return errno
}

// waitsAlone waits in futex_wait(2).
//
//go:noinline
func waitsAlone(until unix.Timespec) unix.Errno {
	var word uint32
	_, _, errno := unix.Syscall6(
		455, uintptr(unsafe.Pointer(&word)), 0, 0xffffffff, 2|128, uintptr(unsafe.Pointer(&until)),
		unix.CLOCK_MONOTONIC,
	)
	return errno
}

// TestLocksInNewerCalls waits by itself in the system calls for futexes that came after futex(2),
// each for 10 ms.
func TestLocksInNewerCalls(t *testing.T) {
	tracetest.Needs(t, feature.RawTracepoints)
	const wait, least = 10 * time.Millisecond, 20
	for name, call := range map[string]func(unix.Timespec) unix.Errno{
		"waitsInVector": waitsInVector, "waitsAlone": waitsAlone,
	} {
		t.Run(name, func(t *testing.T) {
			waits := func() unix.Errno {
				var now unix.Timespec
				if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
					t.Error(err)
				}
				return call(unix.NsecToTimespec(now.Nano() + wait.Nanoseconds()))
			}
			if errno := waits(); errno == unix.ENOSYS {
				t.Skip("needs: kernel feature " + name)
			} else if errno != unix.ETIMEDOUT {
				t.Fatal(errno)
			}
			ctx, stop := context.WithTimeout(context.Background(), time.Minute)
			defer stop()
			begun, done := make(chan struct{}), make(chan struct{})
			p := &Profile{Of: Locks, User: true, Threads: ThreadFilter{PIDs: []int{os.Getpid()}}}
			p.hooks.begun = func() { close(begun) }
			own := int64(0)
			go func() {
				defer close(done)
				defer stop()
				select {
				case <-begun:
				case <-ctx.Done():
					return
				}
				for range least {
					before := time.Now()
					waits()
					own += time.Since(before).Nanoseconds()
				}
			}()
			got, err := p.Run(ctx)
			<-done
			if err != nil {
				t.Fatal(err)
			}
			count, nanos := int64(0), int64(0)
			for s := range got.Stacks {
				if s.State == stateFutex && strings.Contains(strings.Join(s.User, " "), "."+name) {
					count, nanos = count+s.Count, nanos+s.Amount
				}
			}
			// A thread that is woken without reason waits again in the same call.
			if want := int64(least) - lostTimes(got); count < want || count > least+least/10 ||
				nanos < want*wait.Nanoseconds()*9/10 ||
				nanos > own {
				t.Errorf(
					"%d waits of %d ns, want %d, which took %d ns by the clock", count, nanos,
					least, own,
				)
			}
		})
	}
}
