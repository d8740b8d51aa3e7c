// Package stop runs a process that this thread traces by ptrace up to a place, and stops it there.
package stop

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/symbol"

	"golang.org/x/sys/unix"
)

// A Place is where a process stops.
type Place string

// The places, in the order in which a program reaches them.
const (
	Exec     Place = "exec"     // its first instruction: no library is mapped yet
	Preinit  Place = "preinit"  // libraries are mapped, and none of their code has run
	Postinit Place = "postinit" // its entry point: libraries are initialized
	Main     Place = "main"     // its function main
)

// Entries of /proc/PID/auxv.
const (
	auxBase  = 7 // address of the dynamic linker; 0: there is none
	auxEntry = 9 // address of the program's entry point
)

// RunTo runs a process up to a place and stops it there. The process is at its first instruction,
// and this thread traces it. files reads its files; nil: this process does. It fails when the
// process ends before, and when its files do not show where the place is.
func RunTo(pid int, when Place, files *symbol.Files) error {
	if when == Exec {
		return nil
	}
	aux, err := auxiliary(pid)
	if err != nil {
		return err
	}
	if when == Preinit && aux[auxBase] != 0 {
		return runToMapped(pid, aux[auxBase], files)
	}
	if err := runToAddress(pid, aux[auxEntry]); err != nil || when != Main {
		return err
	}
	main, err := mainOf(pid, files)
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
	word, err := wordSize(pid)
	if err != nil {
		return nil, fmt.Errorf("find its entry point: %w", err)
	}
	out := map[uint64]uint64{}
	for ; len(b) >= 2*word; b = b[2*word:] {
		out[number(b[:word])] = number(b[word : 2*word])
	}
	if out[auxEntry] == 0 {
		return nil, fmt.Errorf("its entry point is not known: %w", measure.ErrUnclear)
	}
	return out, nil
}

// wordSize returns the bytes of a word of a process: 4 or 8. It is in the ELF header of its
// program.
func wordSize(pid int) (int, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var head [5]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return 0, err
	}
	if head[4] == 1 { // ELFCLASS32
		return 4, nil
	}
	return 8, nil
}

// number returns a word of 4 or 8 bytes.
func number(word []byte) uint64 {
	if len(word) == 4 {
		return uint64(binary.NativeEndian.Uint32(word))
	}
	return binary.NativeEndian.Uint64(word)
}

// mainOf returns the address of the function main of a process.
func mainOf(pid int, files *symbol.Files) (uint64, error) {
	codes, err := symbol.NewProcessesOf(kernel.Root{}, files).Code(pid)
	if err != nil {
		return 0, err
	}
	found := uint64(0)
	var failed error
	for _, c := range codes {
		if c.Main {
			var funcs []symbol.Function
			funcs, failed = c.Functions()
			for _, f := range funcs {
				if f.Name == "main" || f.Name == "main.main" && found == 0 {
					found = f.Start + c.Bias
				}
			}
		}
		c.Close() //nolint:errcheck // it was read from
	}
	switch {
	case failed != nil:
		return 0, fmt.Errorf("find its function main: %w", failed)
	case found == 0:
		return 0, errors.New(
			"its file has no symbol main: -x evaltime=postinit stops at the entry point",
		)
	}
	return found, nil
}

// runToMapped runs a process until the dynamic linker at base has mapped all libraries. Before and
// after it changes the list of libraries, the linker calls an empty function, which is meant for
// debuggers. The variable _r_debug has the state of the list.
func runToMapped(pid int, base uint64, files *symbol.Files) error {
	codes, err := symbol.NewProcessesOf(kernel.Root{}, files).Code(pid)
	if err != nil {
		return err
	}
	var notify, state uint64
	var failed error
	for _, c := range codes {
		if c.Bias == base {
			var missing error
			notify, failed = c.Variable("_dl_debug_state")
			state, missing = c.Variable("_r_debug")
			notify, state = notify+c.Bias, state+c.Bias
			failed = cmp.Or(failed, missing)
		}
		c.Close() //nolint:errcheck // it was read from
	}
	switch {
	case errors.Is(failed, symbol.ErrUnavailable):
		return fmt.Errorf("find the variables of its dynamic linker: %w", failed)
	case notify == 0 || failed != nil:
		return fmt.Errorf(
			"its dynamic linker does not notify debuggers when it has mapped the libraries: %w",
			measure.ErrUnsupported,
		)
	}
	word, err := wordSize(pid)
	if err != nil {
		return err
	}
	const calls = 16 // normally there are two
	for range calls {
		if err := runToAddress(pid, notify); err != nil {
			return err
		}
		// struct r_debug: int version; struct link_map *map; address of the function; enum state
		debug := make([]byte, 4*word) // each member takes a word
		if _, err := unix.PtracePeekData(pid, uintptr(state), debug); err != nil {
			return fmt.Errorf("read the state of its dynamic linker: %w", err)
		}
		if binary.NativeEndian.Uint32(debug[3*word:]) == 0 && number(debug[word:2*word]) != 0 {
			return nil
		}
		if err := step(pid); err != nil {
			return err
		}
	}
	return fmt.Errorf("its dynamic linker keeps on mapping libraries: %w", measure.ErrUnclear)
}

// runToAddress runs a process to an instruction, by a temporary breakpoint.
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
			return fmt.Errorf("continue it: %w", err)
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
		return fmt.Errorf("remove the breakpoint at %x: %w", addr, err)
	}
	_, err := programCounter(pid, &addr)
	return err
}

// step runs one instruction of a process.
func step(pid int) error {
	if err := unix.PtraceSingleStep(pid); err != nil {
		return fmt.Errorf("run one instruction of it: %w", err)
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
