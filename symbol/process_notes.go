package symbol

import (
	"fmt"
	"slices"
	"strconv"

	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// Notes returns caveats of the places returned so far: processes that could not be read.
func (ps *Processes) Notes() []string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var out []string
	if n := len(ps.denied); n > 0 {
		out = append(out, fmt.Sprintf("addresses of %s have no names: %v", several(n),
			kernel.Refused("read the maps of processes of others", "", unix.CAP_SYS_PTRACE)))
	}
	if n := len(ps.gone); n > 0 {
		out = append(out, fmt.Sprintf("addresses of %s have no names: ended before the maps "+
			"could be read", several(n)))
	}
	if n := len(ps.hung); n > 0 {
		out = append(out, fmt.Sprintf("addresses of %s have no names: reading its maps, memory or "+
			"files does not return. It hangs in execve(2), its memory map is locked, or a file "+
			"system does not answer", several(n)))
	}
	if ps.outside {
		out = append(out, "addresses of processes outside of this PID namespace have no names")
	}
	cut := 0
	for _, p := range ps.procs {
		cut += b2i(p.cut)
	}
	if cut > 0 {
		out = append(out, fmt.Sprintf("some addresses of %s have no names: only the first %d "+
			"mappings of a process are kept", several(cut), mostMappings))
	}
	var failed []string
	for path, why := range ps.failed {
		failed = append(failed, fmt.Sprintf("addresses of %s have no names: %s", path, why))
	}
	slices.Sort(failed)
	return slices.Concat(out, failed, ps.files.notes())
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func several(n int) string {
	if n == 1 {
		return "one process"
	}
	if n >= mostUnseen { // no more are counted
		return strconv.Itoa(n) + " processes or more"
	}
	return strconv.Itoa(n) + " processes"
}
