package cases

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// actCrew starts workers, processes of the same name that take turns at a file lock. With -rate a
// worker accepts a connection while it holds the lock, and serves it afterwards; the first process
// connects so often. Otherwise a worker sleeps while it holds the lock. An operation is a turn.
func actCrew(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	workers := f.Int("workers", 6, "workers")
	name := f.String("file", "", "the locked file, made and removed")
	hold := f.Duration("hold", 2*time.Millisecond, "that a worker needs for a turn")
	rate := f.Float64("rate", 0, "connections a second; 0: none")
	worker := f.Bool("worker", false, "this process is a worker")
	f.Parse(args)
	if *worker {
		return takeFileTurns(*name, *hold, *rate > 0)
	}
	file, err := os.Create(*name)
	if err != nil {
		return err
	}
	defer os.Remove(*name)
	defer file.Close()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: *name + ".sock", Net: "unix"})
	if err != nil {
		return err
	}
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	turns, stop, err := startWorkers(append(args, "-worker"), *workers, socket)
	if err != nil {
		return err
	}
	defer stop()
	socket.Close()
	go countTurns(turns, t)
	t.ready()
	for p := (&pace{rate: *rate}); *rate > 0; {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		c, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			return err
		}
		go func() {
			io.Copy(io.Discard, c)
			c.Close()
		}()
	}
	<-ctx.Done()
	return nil
}

// takeFileTurns is a worker of actCrew: descriptor 3 is the listening socket.
func takeFileTurns(name string, hold time.Duration, accepts bool) error {
	runtime.LockOSThread()
	if err := unix.SetNonblock(3, false); err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	lock := func(how int) error {
		for {
			if err := unix.Flock(int(file.Fd()), how); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	}
	for {
		if err := lock(unix.LOCK_EX); err != nil {
			return err
		}
		c := -1
		if accepts {
			if c, _, err = unix.Accept(3); err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("accept: %w", err)
			}
		} else {
			spend(hold, true)
		}
		if err := lock(unix.LOCK_UN); err != nil {
			return err
		}
		if accepts {
			spend(hold, true)
			unix.Close(c)
		}
		if err := countTurn(); err != nil {
			return err
		}
	}
}
