package term

import (
	"context"
	"os"
	"strconv"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Machine is what the commands look at: this machine now, or in a time that has passed.
type Machine interface {
	measure.Watcher
	// Stats lists all statistics, sorted.
	Stats() []measure.Stat
	// Parse reads and checks a sentence; a *measure.Diagnostic where it is wrong.
	Parse(sentence string) (measure.Query, error)
	// Record watches the queries for n ticks and gives what it saw as a reader, also when the
	// context ended before.
	Record(
		ctx context.Context, queries []measure.Query, n int, progress func(tick int),
	) (measure.Reader, error)
}

// Look says how to look at the machine.
type Look struct {
	Netns     string // "" the tool's own network namespace, a name, or all
	SinceBoot bool   // the first interval is the time since boot
	Alone     bool   // nothing else goes on in the process while it looks, and no tick is kept: cheaper, see kernel.Root and dataset.WatchBrief
}

// Terminal is where a command writes, and what that is.
type Terminal struct {
	Out, Err *os.File
	Width    int // columns; 80 when Out is no terminal
	Lines    int // 0 when Out is no terminal
	Colour   bool
	IsTTY    bool // Out is a terminal
	ErrTTY   bool // Err is a terminal: progress may be shown there
}

// ReadTerminal looks at standard output and at COLUMNS, LINES, NO_COLOR and TERM.
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
