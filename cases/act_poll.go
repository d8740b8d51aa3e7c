package cases

import (
	"context"
	"flag"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// actPoll works on events that come at a rate. It sleeps until there is one, or polls for it. With
// timers it has threads that sleep for a period again and again. An operation is an event, or a
// period.
func actPoll(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	rate := f.Float64("rate", 1000, "events a second")
	work := f.Duration("work", 150*time.Microsecond, "CPU time for an event")
	timeout := f.Int("timeout", -1, "of epoll_wait, ms; -1: until there is an event; 0: poll")
	timers := f.Int("timers", 0, "threads that sleep for a period, in place of events")
	period := f.Duration("period", time.Millisecond, "of the timers")
	f.Parse(args)
	runtime.GOMAXPROCS(*timers + 3)
	if *timers > 0 {
		for range *timers {
			go func() {
				runtime.LockOSThread()
				for ctx.Err() == nil {
					spend(*period, true)
					t.ops.Add(1)
				}
			}()
		}
		t.ready()
		<-ctx.Done()
		return nil
	}
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_SEMAPHORE|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	err = unix.EpollCtl(poll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLIN})
	if err != nil {
		return err
	}
	go func() {
		runtime.LockOSThread()
		ready := make([]unix.EpollEvent, 1)
		var b [8]byte
		for ctx.Err() == nil {
			if n, _ := unix.EpollWait(poll, ready, *timeout); n != 1 {
				continue
			}
			if _, err := unix.Read(event, b[:]); err == nil {
				spend(*work, false)
				t.ops.Add(1)
			}
		}
	}()
	t.ready()
	one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
	for p := (&pace{rate: *rate}); ; {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if _, err := unix.Write(event, one); err != nil && err != unix.EAGAIN {
			return err
		}
	}
}
