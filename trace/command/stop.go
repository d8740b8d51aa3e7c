package command

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/symbol"

	"golang.org/x/sys/unix"
)

// A stopPlace is where a command of -c is held until its probes are made: -x evaltime.
type stopPlace string

// The places, in the order in which a program comes by.
const (
	stopExec    stopPlace = "exec"    // before its first instruction: no library is there yet
	stopPreinit stopPlace = "preinit" // its libraries are mapped, and nothing of them has run
	// at its own entry point: its libraries have been made ready
	stopPostinit stopPlace = "postinit"
	stopMain     stopPlace = "main" // at its function main
)

// stopAt returns where commands are to be held. What is about processes' own probes needs their
// libraries; all else is to see what a command does first.
func (r *Request) stopAt(s source) (stopPlace, error) {
	tree, _ := syntax.Parse(s.text, s.mode) // Compile returns the errors
	settings := r.settings()
	own := false
	if tree != nil {
		for _, item := range tree.Items {
			switch item := item.(type) {
			case *syntax.Pragma:
				if _, given := settings["evaltime"]; !given && item.Name.Text == "evaltime" && item.Set {
					settings["evaltime"] = item.Value.Text
				}
			case *syntax.Clause:
				for _, p := range item.Probes {
					own = own || strings.Contains(p.Provider.Text, "$") || strings.HasPrefix(p.Provider.Text, "pid")
				}
			}
		}
	}
	switch word, given := settings["evaltime"]; {
	case !given && own:
		return stopPostinit, nil
	case !given:
		return stopExec, nil
	case word == string(stopExec),
		word == string(stopPreinit),
		word == string(stopPostinit),
		word == string(stopMain):
		return stopPlace(word), nil
	default:
		return "", fmt.Errorf("-x evaltime=%s: it is one of exec, preinit, postinit and main", word)
	}
}

// Entries of /proc/PID/auxv.
const (
	auxBase  = 7 // where the dynamic linker is; 0: there is none
	auxEntry = 9 // the program's entry point
)

// runTo lets a process that has just been executed, and that this thread traces, run up to a place
// and stop there.
func runTo(pid int, when stopPlace) error {
	aux, err := auxiliary(pid)
	if err != nil {
		return err
	}
	if when == stopPreinit && aux[auxBase] != 0 {
		return runToMapped(pid, aux[auxBase])
	}
	if err := runToAddress(pid, aux[auxEntry]); err != nil || when != stopMain {
		return err
	}
	main, err := mainOf(pid)
	if err != nil {
		return err
	}
	return runToAddress(pid, main)
}

func auxiliary(pid int) (map[uint64]uint64, error) {
	b, err := proc.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid), nil)
	if err != nil {
		return nil, fmt.Errorf("find its entry point: %w", err)
	}
	out := map[uint64]uint64{}
	for ; len(b) >= 16; b = b[16:] {
		out[binary.NativeEndian.Uint64(b)] = binary.NativeEndian.Uint64(b[8:])
	}
	if out[auxEntry] == 0 {
		return nil, fmt.Errorf("its entry point is not known: %w", measure.ErrUnclear)
	}
	return out, nil
}

// mainOf returns where the function main of a process is.
func mainOf(pid int) (uint64, error) {
	codes, err := symbol.NewProcesses(kernel.Root{}).Code(pid)
	if err != nil {
		return 0, err
	}
	found := uint64(0)
	for _, c := range codes {
		if c.Main {
			funcs, _ := c.Functions() // none: reported below
			for _, f := range funcs {
				if f.Name == "main" || f.Name == "main.main" && found == 0 {
					found = f.Start + c.Bias
				}
			}
		}
		c.Close() //nolint:errcheck // it was read from
	}
	if found == 0 {
		return 0, errors.New(
			"its function main has no name in the file: -x evaltime=postinit stops before it",
		)
	}
	return found, nil
}

// runToMapped runs to where the dynamic linker has mapped all libraries: it calls a function that
// does nothing, for debuggers, before and after it changes the list of them, and says in a variable
// which it is.
func runToMapped(pid int, base uint64) error {
	codes, err := symbol.NewProcesses(kernel.Root{}).Code(pid)
	if err != nil {
		return err
	}
	var tell, state uint64
	for _, c := range codes {
		if c.Bias == base {
			for _, name := range []string{"_dl_debug_state", "_r_debug"} {
				if addr, ok := c.Variable(name); ok && name == "_r_debug" {
					state = addr + c.Bias
				} else if ok {
					tell = addr + c.Bias
				}
			}
		}
		c.Close() //nolint:errcheck // it was read from
	}
	if tell == 0 || state == 0 {
		return fmt.Errorf(
			"its dynamic linker doesn't tell debuggers when it has mapped the libraries: %w",
			measure.ErrUnsupported,
		)
	}
	const calls = 16 // it calls twice
	for range calls {
		if err := runToAddress(pid, tell); err != nil {
			return err
		}
		// struct r_debug: int version; struct link_map *map; address of the function; enum state
		var word [8]byte
		if _, err := unix.PtracePeekData(pid, uintptr(state+24), word[:]); err != nil {
			return fmt.Errorf("look at the state of its dynamic linker: %w", err)
		}
		var list [8]byte
		if _, err := unix.PtracePeekData(pid, uintptr(state+8), list[:]); err != nil {
			return fmt.Errorf("look at the state of its dynamic linker: %w", err)
		}
		if binary.NativeEndian.Uint32(word[:]) == 0 && binary.NativeEndian.Uint64(list[:]) != 0 {
			return nil
		}
		if err := step(pid); err != nil {
			return err
		}
	}
	return fmt.Errorf("its dynamic linker maps libraries again and again: %w", measure.ErrUnclear)
}

// runToAddress runs to an instruction, on which it puts a breakpoint for so long.
func runToAddress(pid int, addr uint64) error {
	trap := []byte{0xcc}
	if runtime.GOARCH == "arm64" {
		trap = []byte{0, 0, 0x20, 0xd4}
	}
	was := make([]byte, len(trap))
	if _, err := unix.PtracePeekText(pid, uintptr(addr), was); err != nil {
		return fmt.Errorf("read its instruction at %x: %w", addr, err)
	}
	if _, err := unix.PtracePokeText(pid, uintptr(addr), trap); err != nil {
		return fmt.Errorf("put a breakpoint at %x: %w", addr, err)
	}
	signal := 0
	for {
		if err := unix.PtraceCont(pid, signal); err != nil {
			return fmt.Errorf("let it run: %w", err)
		}
		status, err := await(pid)
		if err != nil {
			return err
		}
		at, err := programCounter(pid, nil)
		if err != nil {
			return err
		}
		if status.StopSignal() == unix.SIGTRAP &&
			(at == addr+uint64(len(trap)) && runtime.GOARCH == "amd64" || at == addr) {
			break
		}
		if signal = int(status.StopSignal()); status.StopSignal() == unix.SIGTRAP {
			signal = 0
		}
	}
	if _, err := unix.PtracePokeText(pid, uintptr(addr), was); err != nil {
		return fmt.Errorf("take the breakpoint from %x: %w", addr, err)
	}
	_, err := programCounter(pid, &addr)
	return err
}

// step lets a process do one instruction.
func step(pid int) error {
	if err := unix.PtraceSingleStep(pid); err != nil {
		return fmt.Errorf("let it do one instruction: %w", err)
	}
	_, err := await(pid)
	return err
}

// await waits until a process stops.
func await(pid int) (unix.WaitStatus, error) {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return status, fmt.Errorf("wait for it: %w", err)
		case !status.Stopped():
			return status, errors.New("it ended before its program began")
		}
		return status, nil
	}
}
