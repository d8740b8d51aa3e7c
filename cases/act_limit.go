package cases

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// actHold takes one thing after the other and keeps it, up to a number; then it releases the oldest
// for each new one. Those that it cannot get count as errors.
func actHold(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	what := f.String("what", "", "files, inotify, connections, unix, names")
	most := f.Int("most", 0, "number to keep; 0: no limit")
	rate := f.Float64("rate", 20, "attempts a second")
	in := f.String("in", "", "the directory of the names; the address of the connections")
	limit := f.Uint64("limit", 0, "most open files; 0: as it is")
	user := f.Int("user", 0, "whose they are; 0: as it is")
	f.Parse(args)
	if *limit > 0 {
		err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: *limit, Max: *limit})
		if err != nil {
			return fmt.Errorf("limit open files: %w", err)
		}
	}
	if *user > 0 {
		if err := syscall.Setuid(*user); err != nil {
			return fmt.Errorf("become user %d: %w", *user, err)
		}
	}
	get := map[string]func(n int) (release func(), err error){
		"files": func(int) (func(), error) { return held(unix.Open("/dev/null", unix.O_CLOEXEC, 0)) },
		"inotify": func(int) (func(), error) {
			return held(unix.InotifyInit1(unix.IN_CLOEXEC))
		},
		"connections": func(int) (func(), error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", *in)
			if err != nil {
				return nil, err
			}
			return func() { c.Close() }, nil
		},
		"unix": func(int) (func(), error) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return nil, err
			}
			if err := unix.Connect(fd, &unix.SockaddrUnix{Name: *in}); err != nil {
				unix.Close(fd)
				return nil, err
			}
			return func() { unix.Close(fd) }, nil
		},
		"names": func(n int) (func(), error) {
			name := filepath.Join(*in, fmt.Sprint(n))
			fd, err := unix.Open(name, unix.O_CREAT|unix.O_WRONLY, 0o600)
			if err != nil {
				return nil, err
			}
			unix.Close(fd)
			return func() { os.Remove(name) }, nil
		},
	}[*what]
	if get == nil {
		return fmt.Errorf("hold what: %q", *what)
	}
	return hold(ctx, get, *most, *rate, t)
}

func held(fd int, err error) (func(), error) {
	if err != nil {
		return nil, err
	}
	return func() { unix.Close(fd) }, nil
}

// hold takes as many things as it may get before it is ready.
func hold(
	ctx context.Context, get func(int) (func(), error), most int, rate float64, t *tally,
) error {
	if err := sleep(ctx, time.Millisecond); err != nil { // Go's timers need a descriptor
		return err
	}
	var kept []func()
	n := 0
	take := func() error {
		if most > 0 && len(kept) >= most {
			kept[0]()
			kept = kept[1:]
		}
		n++
		release, err := get(n)
		if err == nil {
			kept = append(kept, release)
		}
		return err
	}
	for (most == 0 || len(kept) < most) && ctx.Err() == nil {
		if take() != nil {
			break
		}
	}
	t.ready()
	p := &pace{rate: rate}
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if take() != nil {
			t.errors.Add(1)
			continue
		}
		t.done(0, 0)
	}
}

// actLog writes to the end of a file until it is as long as it may be, and then over it from its
// begin. Writes that fail count as errors.
func actLog(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	name := f.String("file", "", "the file")
	most := f.Int64("most", 0, "bytes of it; 0: no limit")
	rate := f.Float64("rate", 20, "writes a second, of 4 KiB each")
	limit := f.Uint64("limit", 0, "bytes that a file of the process may have; 0: as it is")
	f.Parse(args)
	if *limit > 0 {
		signal.Ignore(unix.SIGXFSZ)
		err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: *limit, Max: *limit})
		if err != nil {
			return fmt.Errorf("limit the size of files: %w", err)
		}
	}
	fd, err := unix.Open(*name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", *name, err)
	}
	b := make([]byte, 4096)
	at, err := unix.Seek(fd, 0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("seek in %s: %w", *name, err)
	}
	write := func() error {
		if *most > 0 && at+int64(len(b)) > *most {
			at = 0
		}
		n, err := unix.Pwrite(fd, b, at)
		at += int64(max(n, 0))
		return err
	}
	for (*most == 0 || at+int64(len(b)) <= *most) && ctx.Err() == nil {
		if write() != nil {
			break
		}
	}
	t.ready()
	p := &pace{rate: *rate}
	for {
		if err := p.wait(ctx, 1); err != nil {
			return err
		}
		if write() != nil {
			t.errors.Add(1)
			continue
		}
		t.done(int64(len(b)), 0)
	}
}

// actAnswer listens on an AF_UNIX socket, and accepts connections or not.
func actAnswer(ctx context.Context, f *flag.FlagSet, args []string, t *tally) error {
	at := f.String("at", "", "path of the socket")
	backlog := f.Int("backlog", 128, "connections that may wait")
	accept := f.Bool("accept", true, "accept them, and close them when the client does")
	f.Parse(args)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: *at})
	}
	if err == nil {
		err = unix.Listen(fd, *backlog)
	}
	if err != nil {
		return fmt.Errorf("listen on %s: %w", *at, err)
	}
	t.ready()
	for *accept && ctx.Err() == nil {
		c, _, err := unix.Accept(fd)
		if err != nil {
			continue
		}
		unix.Close(c)
		t.done(0, 0)
	}
	<-ctx.Done()
	return nil
}
