package cases

import (
	"context"
	"flag"
	"fmt"

	"golang.org/x/sys/unix"
)

// actPut writes blocks of 4 KiB to a FIFO. A thread waits in the system call when the FIFO is full.
func actPut(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	path := f.String("fifo", "", "the FIFO")
	rate := f.Float64("rate", 100, "blocks a second")
	f.Parse(args)
	fd, err := unix.Open(*path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", *path, err)
	}
	t.ready()
	ended := make(chan error, 1)
	go func() {
		b := make([]byte, 4096)
		p := &pace{rate: *rate}
		for p.wait(ctx, 1) == nil {
			if _, err := unix.Write(fd, b); err != nil {
				ended <- fmt.Errorf("write to %s: %w", *path, err)
				return
			}
			t.done(int64(len(b)), 0)
		}
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// actTake opens a FIFO, and reads it empty again and again, or never.
func actTake(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	path := f.String("fifo", "", "the FIFO")
	never := f.Bool("never", false, "read nothing")
	f.Parse(args)
	// Without O_NONBLOCK it would wait here until somebody opens the FIFO to write.
	fd, err := unix.Open(*path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", *path, err)
	}
	t.ready()
	if *never {
		<-ctx.Done()
		return nil
	}
	b := make([]byte, 64<<10)
	p := &pace{rate: 100}
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if n, _ := unix.Read(fd, b); n > 0 { // EAGAIN: it is empty
			t.done(int64(n), 0)
		}
	}
}
