package cases

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// actBurn keeps threads busy: in user mode counting, in system mode reading /dev/zero.
func actBurn(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	threads := f.Int("threads", 1, "busy threads")
	duty := f.Float64("duty", 1, "share of the time that each is busy")
	sys := f.Bool("sys", false, "burn in the kernel")
	f.Parse(args)
	runtime.GOMAXPROCS(*threads + 2) // or the runtime itself would take turns with the threads
	zero, err := os.Open("/dev/zero")
	if err != nil {
		return err
	}
	for range *threads {
		go burn(*duty, *sys, int(zero.Fd()), t)
	}
	t.ready()
	<-ctx.Done()
	return nil
}

func burn(duty float64, sys bool, zero int, t *tally) {
	runtime.LockOSThread()
	const period = 10 * time.Millisecond
	b := make([]byte, 64<<10)
	x := uint64(1)
	started, base := time.Now(), threadTime()
	for n := int64(1); ; n++ {
		busy := time.Duration(
			float64(n) * duty * float64(period),
		) // CPU time that is due until the end of this period
		for threadTime()-base < busy {
			if sys {
				unix.Read(zero, b)
			} else {
				for range 20000 {
					x ^= x << 13
					x ^= x >> 7
					x ^= x << 17
				}
			}
		}
		if x == 0 { // never, but the compiler doesn't know
			return
		}
		t.ops.Add(1)
		if duty >= 1 {
			continue
		}
		until := started.Add(time.Duration(n) * period)
		wait := time.Until(until)
		if wait < -time.Second { // others took the CPU: what was lost is lost
			started, n, base = time.Now(), 0, threadTime()
		}
		time.Sleep(wait)
	}
}

// threadTime is the CPU time that the calling thread has used.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // every Linux has this clock
	}
	return time.Duration(ts.Nano())
}

// actWrite writes blocks to random places of a file past the page cache, each thread one after
// another.
func actWrite(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	name := f.String("file", "", "file, made and removed, or a block device")
	size := f.Int64("size", 256<<20, "bytes of the file")
	block := f.Int("block", 64<<10, "bytes a write, a multiple of 4096")
	depth := f.Int("depth", 16, "threads, each with a write under way")
	rate := f.Float64("rate", 0, "bytes a second; 0: as fast as it goes")
	f.Parse(args)
	fd, err := unix.Open(*name, unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open %s past the page cache: %w", *name, err)
	}
	if st, err := os.Stat(*name); err == nil && st.Mode().IsRegular() {
		defer os.Remove(*name)
	}
	// Written once from end to end, so that later writes meet allocated blocks.
	b := aligned(1 << 20)
	for off := int64(0); off < *size; off += int64(len(b)) {
		if _, err := unix.Pwrite(fd, b, off); err != nil {
			return fmt.Errorf("write %s: %w", *name, err)
		}
	}
	p := &pace{rate: *rate}
	fail := make(chan error, *depth)
	for range *depth {
		go func() {
			b := aligned(*block)
			for {
				if err := p.wait(ctx, float64(*block)); err != nil {
					fail <- err
					return
				}
				off := rand.Int64N(*size/int64(*block)) * int64(*block)
				start := time.Now()
				n, err := unix.Pwrite(fd, b, off)
				if err != nil {
					fail <- err
					return
				}
				t.done(int64(n), time.Since(start))
			}
		}()
	}
	t.ready()
	select {
	case <-ctx.Done():
		return nil
	case err := <-fail:
		return err
	}
}

// aligned is a block as O_DIRECT wants it: beginning at a multiple of 4096.
func aligned(n int) []byte {
	b := make([]byte, n+4096)
	off := -int(uintptr(unsafe.Pointer(&b[0]))) & 4095
	return b[off : off+n]
}

// actReread holds memory and reads a file through the page cache over and over. In a cgroup that
// can't hold both the kernel reclaims at every step, and reads again what it threw out just before.
func actReread(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	name := f.String("file", "", "file, made and removed")
	size := f.Int64("size", 128<<20, "bytes of the file")
	hold := f.Int("hold", 16<<20, "bytes of memory held besides")
	threads := f.Int("threads", 2, "readers")
	rate := f.Float64("rate", 0, "bytes a second; 0: as fast as it goes")
	f.Parse(args)
	fd, err := unix.Open(*name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(*name)
	b := make([]byte, 1<<20)
	for off := int64(0); off < *size; off += int64(len(b)) {
		if _, err := unix.Pwrite(fd, b, off); err != nil {
			return err
		}
	}
	if err := unix.Fdatasync(fd); err != nil { // clean pages can be thrown out at once
		return err
	}
	unix.Fadvise(fd, 0, *size, unix.FADV_DONTNEED)
	unix.Fadvise(fd, 0, *size, unix.FADV_RANDOM)
	held := make([]byte, *hold)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	p := &pace{rate: *rate}
	for range *threads {
		go func() {
			b := make([]byte, 64<<10)
			for p.wait(ctx, float64(len(b))) == nil {
				start := time.Now()
				n, err := unix.Pread(fd, b, rand.Int64N(*size/int64(len(b)))*int64(len(b)))
				if err != nil {
					t.errors.Add(1)
				}
				t.done(int64(n), time.Since(start))
			}
		}()
	}
	t.ready()
	<-ctx.Done()
	runtime.KeepAlive(held)
	return nil
}

// actPurge makes a directory, looks up names in it that do not exist, each of which the kernel
// caches, and removes it, which purges them. An operation is a removal.
func actPurge(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	dir := f.String("dir", "", "directory, made and removed")
	names := f.Int("names", 40000, "names looked up in it")
	every := f.Duration("every", 200*time.Millisecond, "time from one round to the next")
	f.Parse(args)
	rounds := time.NewTicker(*every) // what was missed is left out
	defer rounds.Stop()
	ready := false
	for {
		if err := unix.Mkdir(*dir, 0o700); err != nil {
			return fmt.Errorf("make %s: %w", *dir, err)
		}
		var st unix.Stat_t
		for n := range *names {
			if err := unix.Lstat(fmt.Sprintf("%s/message-%d", *dir, n), &st); !errors.Is(
				err, unix.ENOENT,
			) {
				return fmt.Errorf("look up what is not there: %w", err)
			}
		}
		start := time.Now()
		if err := unix.Rmdir(*dir); err != nil {
			return fmt.Errorf("remove %s: %w", *dir, err)
		}
		t.done(0, time.Since(start))
		if !ready {
			ready = true
			t.ready()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-rounds.C:
		}
	}
}

// actLockUp holds many locks on parts of one file, which the kernel keeps in a list, and takes and
// releases one more for a share of the time: each time the list is walked. An operation is one
// such lock.
func actLockUp(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	name := f.String("file", "", "file, made and removed")
	locks := f.Int("locks", 6000, "locks that are held")
	duty := f.Float64("duty", 0.7, "share of the time that it is busy")
	f.Parse(args)
	file, err := os.Create(*name)
	if err != nil {
		return err
	}
	defer os.Remove(*name)
	defer file.Close()
	runtime.LockOSThread()
	set := func(kind int16, at int64) error {
		l := unix.Flock_t{Type: kind, Start: at, Len: 1}
		if err := unix.FcntlFlock(file.Fd(), unix.F_SETLK, &l); err != nil {
			return fmt.Errorf("lock byte %d of %s: %w", at, *name, err)
		}
		return nil
	}
	for n := range *locks {
		// Every other byte: neighbours would become one lock.
		if err := set(unix.F_WRLCK, int64(2*n)); err != nil {
			return err
		}
	}
	t.ready()
	const period = 10 * time.Millisecond
	rounds := time.NewTicker(period)
	defer rounds.Stop()
	last := int64(2 * *locks)
	for {
		for from := threadTime(); threadTime()-from < time.Duration(*duty*float64(period)); {
			for range 8 {
				if err := set(unix.F_WRLCK, last); err != nil {
					return err
				}
				if err := set(unix.F_UNLCK, last); err != nil {
					return err
				}
				t.ops.Add(1)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-rounds.C:
		}
	}
}
