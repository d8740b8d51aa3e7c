package term

import (
	"context"
	"os"
	"strconv"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Machine is what the commands measure: this machine now, or a recording.
type Machine interface {
	measure.Watcher
	// Stats lists all statistics, sorted.
	Stats() []measure.Stat
	// Parse parses and checks a query. The error is a *measure.Diagnostic.
	Parse(query string) (measure.Query, error)
	// Record records the queries for n ticks and returns them as a reader. If the context ends
	// earlier, the reader has the ticks so far. progress is called after each tick; nil: not
	// called.
	Record(
		ctx context.Context, queries []measure.Query, n int, progress func(tick int),
	) (measure.Reader, error)
}

// MachineOptions are the options of Program.Open.
type MachineOptions struct {
	Netns     string // "": the network namespace of culprit; a name; or all
	SinceBoot bool   // the first interval begins at boot
	// The process does nothing else meanwhile and keeps no tick, which is cheaper: see kernel.Root
	// and dataset.WatchBrief.
	Alone bool
}

// Terminal describes where a command writes.
type Terminal struct {
	Out, Err *os.File
	Width    int // columns; 80 if Out is not a terminal
	Lines    int // 0 if Out is not a terminal
	Colour   bool
	IsTTY    bool // Out is a terminal
	ErrTTY   bool // Err is a terminal, so progress is shown there
}

// ReadTerminal describes standard output and standard error. It reads COLUMNS, NO_COLOR and TERM.
func ReadTerminal() Terminal {
	t := Terminal{Out: os.Stdout, Err: os.Stderr, Width: 80}
	if size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ); err == nil {
		t.IsTTY = true
		t.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if size.Col > 0 {
			t.Width, t.Lines = int(size.Col), int(size.Row)
		}
	}
	_, err := unix.IoctlGetWinsize(int(os.Stderr.Fd()), unix.TIOCGWINSZ)
	t.ErrTTY = err == nil
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		t.Width = n
	}
	return t
}
