package trace

import (
	"culprit/lang/check"
	"culprit/symbol"
	"culprit/symbol/interp"
)

// symbols find the names of addresses for one session, and load the tables by which its programs
// walk stacks of processes.
type symbols struct {
	kernel    *symbol.Kernel
	processes *symbol.Processes
	known     []int     // processes whose addresses keep their names after they ended
	unwinder  *unwinder // nil: user stacks are not walked by tables
	follower  *follower // of the script's commands; nil: there are none, or it cannot be opened
	recorder  *recorder // of all processes; nil: the script has a follower, or names no addresses
	// interpreters are the layouts of the interpreters of processes; see interpreterLayout
	interpreters map[int]interp.Layout
	// pointers is the reason why user stacks follow frame pointers although the script did not ask
	// for that; "": they do not.
	pointers string
}

// PreloadUnwindTables loads the unwind tables of processes before their first sample.
func (s *Session) PreloadUnwindTables(pids []int) {
	if s.symbols.unwinder == nil {
		return
	}
	for _, pid := range pids {
		s.symbols.unwinder.loadProcess(pid, 0)
	}
}

// catchUp reads the mappings that the kernel has recorded until now.
func (s *symbols) catchUp() {
	s.follower.catchUp()
	s.recorder.catchUp()
}

// openMappedFiles opens the files that the processes of the script have mapped since the last call.
func (s *symbols) openMappedFiles() {
	s.catchUp()
	for _, pid := range s.known {
		//nolint:errcheck // addresses of a process that can't be read have no names, as reported
		s.processes.OpenMappedFiles(pid)
	}
}

// place returns what is at the address of a value of type t.
func (s *symbols) place(v Value, t check.SymbolType) symbol.Place {
	if t.Of == check.User {
		return s.userPlace(int(v.Pid), uint64(v.Int))
	}
	return s.kernel.Place(uint64(v.Int))
}

// userPlace returns what is at an address of a process, or the function of a frame of an
// interpreter.
func (s *symbols) userPlace(pid int, addr uint64) symbol.Place {
	if interp.IsWord(addr) && s.mayInterpret(pid) {
		return s.frameNames(pid, []uint64{addr}, true).places(addr, true)[0]
	}
	return s.processes.Place(pid, addr)
}

// stack returns what is at the addresses of a stack; pid 0 is the kernel. A pseudo frame has a
// place whose name is its text.
func (s *symbols) stack(pid int, pcs []uint64) []symbol.Place {
	if pid == 0 {
		return s.kernel.Stack(pcs)
	}
	known := s.processes.Stack(pid, addresses(pcs))
	if len(known) > 0 && beginsInterpreted(pcs) {
		known[0].Address++
		if known[0].Name != "" {
			known[0].Offset++
		}
	}
	interpreted := s.frameNames(pid, pcs, true)
	out := make([]symbol.Place, 0, len(pcs))
	module := ""
	for _, pc := range pcs {
		if interp.IsWord(pc) {
			out = append(out, interpreted.places(pc, true)...)
			continue
		}
		if isPseudo(pc) {
			out = append(out, symbol.Place{Name: pseudoText(pc, module), Address: pc})
			continue
		}
		if out, known = append(out, known[0]), known[1:]; out[len(out)-1].Module != "" {
			module = out[len(out)-1].Module
		}
	}
	return out
}

// spots returns the places at the addresses of a stack, and for those in files, if their names are
// looked up later, spots and inlined functions. pid 0 is the kernel; reading 0 is a process whose
// maps cannot be read.
func (s *symbols) spots(
	pid int, pcs []uint64, reading uint64,
) ([]symbol.Place, []symbol.Spot, [][]string) {
	switch {
	case pid == 0:
		return s.kernel.Stack(pcs), nil, nil
	case reading == 0:
		out := make([]symbol.Place, len(pcs))
		for i, pc := range pcs {
			out[i].Address = pc
		}
		return out, nil, nil
	}
	return s.processes.Spots(pid, pcs)
}

// SymbolNotes returns notes on names of functions that could not be read.
func (s *Session) SymbolNotes() []string {
	return append(s.symbols.kernel.Notes(), s.symbols.processes.Notes()...)
}

// UnwindNotes returns notes on stacks that could not be walked to their end.
func (s *Session) UnwindNotes() []string { return s.symbols.unwinder.notes() }
