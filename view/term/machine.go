package term

import (
	"os"
	"strconv"

	"culprit/view/show"

	"golang.org/x/sys/unix"
)

// Machine is what the commands measure: this machine now, or a recording.
type Machine = show.Machine

// MachineOptions are the options of Program.Open.
type MachineOptions struct {
	Netns     string // "": the network namespace of culprit; a name; or all
	SinceBoot bool   // the first interval begins at boot
	// The process does nothing else meanwhile and keeps no tick, which is cheaper: see kernel.Root
	// and dataset.WatchBrief.
	Alone bool
	// Budget is the greatest share of one CPU that each family of traced statistics may use; it is
	// suspended above it. 0: no limit.
	Budget float64
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
