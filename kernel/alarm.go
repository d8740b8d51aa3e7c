package kernel

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Alarm wakes one goroutine after a time: timerfd_create(2) behind the runtime's poller. A timer of the runtime would do as
// well and cost more: its monitor thread sleeps until the next one of them, so it wakes too, each time, on another CPU.
type Alarm struct {
	fd   int
	file *os.File // nil: this kernel has no such timers, and the runtime's must do
	conn syscall.RawConn
	took [8]byte
	ctx  context.Context
	stop func() bool

	// Of the wait under way.
	start time.Time
	long  time.Duration
	woken bool
	ended func(fd uintptr) bool // made once
}

// NewAlarm makes an alarm whose waits end with the context. It never fails: where the kernel gives no timer, waiting costs
// more. Who makes it closes it.
func NewAlarm(ctx context.Context) *Alarm {
	a := &Alarm{fd: -1, ctx: ctx}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return a
	}
	f := os.NewFile(uintptr(fd), "timerfd") // non-blocking, so the poller takes it in
	conn, err := f.SyscallConn()
	if err != nil || f.SetReadDeadline(time.Time{}) != nil { // only what the poller has taken in has deadlines
		f.Close()
		return a
	}
	a.fd, a.file, a.conn, a.ended = fd, f, conn, a.over
	a.stop = context.AfterFunc(ctx, func() {
		f.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // it has deadlines, unless it was closed
	})
	return a
}

// Close ends it. Nobody may be waiting.
func (a *Alarm) Close() {
	if a.file != nil {
		a.stop()
		a.file.Close()
	}
}

// Wait returns after d (at once when it is not positive) or, with the context's error, when that ends. Used by one goroutine.
func (a *Alarm) Wait(d time.Duration) error {
	if err := a.ctx.Err(); err != nil || d <= 0 {
		return err
	}
	if a.file == nil {
		return waitTimer(a.ctx, d)
	}
	a.start, a.long, a.woken = time.Now(), d, false
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if _, _, e := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(a.fd), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); e != 0 {
		return waitTimer(a.ctx, d)
	}
	err := a.conn.Read(a.ended)
	if ended := a.ctx.Err(); ended != nil {
		return ended
	}
	return err
}

// over says whether the wait has ended.
func (a *Alarm) over(fd uintptr) bool {
	// The poller tells of each end of the timer anew, also when nobody has read how often it ended, and setting it forgets that
	// number: so the clock alone says whether it did.
	if time.Since(a.start) >= a.long {
		return true
	}
	if !a.woken {
		a.woken = true
		return false
	}
	// Raw: a system call that tells the runtime wakes its monitor thread. This one never waits.
	n, _, e := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&a.took)), uintptr(len(a.took)))
	return e == 0 && n > 0 || e != unix.EAGAIN && e != unix.EINTR
}

func waitTimer(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
