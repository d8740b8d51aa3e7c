package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// followHangups makes SIGHUP a request to read the configuration and the certificate again. hangup
// gets a value for each; one that nobody has taken counts for the later ones. The context ends with
// ctx, and on the SIGHUP of a terminal that has gone. shown is the file that the messages go to;
// nil: it is no terminal.
func followHangups(ctx context.Context, shown *os.File) (until context.Context,
	hangup <-chan os.Signal) {
	signals, passed := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGHUP)
	until, end := context.WithCancel(ctx)
	go func() {
		defer end()
		defer signal.Stop(signals)
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				if shown != nil && hasGone(shown) {
					return
				}
				select {
				case passed <- s:
				default:
				}
			}
		}
	}()
	return until, passed
}

// hasGone reports whether a terminal was closed: all that is asked of it fails then (tty_ioctl(4)).
func hasGone(terminal *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	return err != nil
}
