package cases

import (
	"context"
	"flag"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// actFault writes to each page of a buffer, pass after pass. Before each pass it releases the
// buffer, and takes it anew, or keeps it. An operation is a pass.
func actFault(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	size := f.Int("size", 64<<20, "bytes")
	by := f.String("by", "munmap", "munmap, madvise, mprotect, or keep")
	rate := f.Float64("rate", 0, "passes a second; 0: no limit")
	passes := f.Int("passes", 1, "times to write before it is released")
	spin := f.Int("spin", 0, "further threads, which compute for six tenths of the time")
	f.Parse(args)
	runtime.GOMAXPROCS(*spin + 3)
	for range *spin {
		go func() {
			runtime.LockOSThread()
			for ctx.Err() == nil {
				spend(6*time.Millisecond, false)
				spend(4*time.Millisecond, true)
			}
		}()
	}
	runtime.LockOSThread()
	take := func() ([]byte, error) {
		return unix.Mmap(-1, 0, *size, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	}
	b, err := take()
	if err != nil {
		return err
	}
	t.ready()
	for p := (&pace{rate: *rate}); ; {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		for range *passes {
			for i := 0; i < len(b); i += 64 {
				b[i] = 1
			}
		}
		switch *by {
		case "munmap":
			if err := unix.Munmap(b); err != nil {
				return err
			}
			if b, err = take(); err != nil {
				return err
			}
		case "mprotect":
			for _, prot := range []int{unix.PROT_READ, unix.PROT_READ | unix.PROT_WRITE} {
				if err := unix.Mprotect(b, prot); err != nil {
					return err
				}
			}
		case "madvise":
			if err := unix.Madvise(b, unix.MADV_DONTNEED); err != nil {
				return err
			}
		}
		t.done(int64(*size), 0)
	}
}
