package symbol

import (
	"fmt"
	"os"
	"strconv"
)

// A MappedFile identifies a file as /proc/PID/maps does.
type MappedFile struct {
	Device, Inode uint64
}

// PIDs returns the processes that /proc shows. It fails when /proc cannot be read.
func (ps *Processes) PIDs() ([]int, error) {
	entries, err := os.ReadDir(ps.root.InProc(""))
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var out []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, pid)
		}
	}
	return out, nil
}

// OtherCode is Code without the files in seen, to which it adds those of the process. It fails as
// Code does.
func (ps *Processes) OtherCode(pid int, seen map[MappedFile]bool) ([]*Code, error) {
	all, err := ps.codeFiles(pid, func(m *Mapping) bool {
		id := MappedFile{m.Device, m.Inode}
		was := seen[id]
		seen[id] = true
		return !was
	})
	if err != nil {
		return nil, err
	}
	return ps.newCodes(all)
}
