package symbol

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

// process returns a process. It reads the maps at the first call, and when another process has its
// pid.
func (ps *Processes) process(pid int) (*process, error) {
	if ps.inside && (pid <= 0 || pid >= outsideMost) {
		ps.outside = true
		return nil, fs.ErrNotExist
	}
	ps.tick++
	p := ps.procs[pid]
	if v := ps.history.versionOf(pid); v != 0 && (p == nil || p.version != v) {
		if fresh := ps.recall(pid, 0); fresh != nil {
			p = fresh
			ps.put(p)
		} else if p != nil {
			p.version = v
		}
	}
	if p != nil {
		if time.Since(p.checked) > maxMapsAge {
			p.checked = time.Now()
			if start, _, err := ps.stat(pid); err == nil && start != p.start {
				p = nil
			}
		}
	}
	if p == nil {
		var err error
		if p, err = ps.readProcess(pid); err != nil {
			return nil, err
		}
		delete(ps.procs, pid) // the former process with this pid
		ps.makeSpace(p.cost())
		ps.procs[pid] = p
	}
	p.used = ps.tick
	return p, nil
}

func (ps *Processes) in(pid int, name string) string {
	return ps.root.InProc(strconv.Itoa(pid) + "/" + name)
}

// stat returns when a process began, in clock ticks.
func (ps *Processes) stat(pid int) (start uint64, ended bool, err error) {
	b, err := ps.readFile(pid, "stat")
	if err != nil {
		return 0, errors.Is(err, fs.ErrNotExist), err
	}
	return parseStart(b), false, nil
}

// parseStart parses the 22nd field of /proc/PID/stat. The second one may contain blanks and
// parentheses.
func parseStart(b []byte) uint64 {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0
	}
	words := bytes.Fields(b[i+1:])
	if len(words) < 20 {
		return 0
	}
	start, _ := proc.ParseUint(words[19])
	return start
}

func (ps *Processes) readProcess(pid int) (*process, error) {
	p := &process{pid: pid, checked: time.Now()}
	var err error
	if p.start, _, err = ps.stat(pid); err == nil {
		ps.userOf(p)
		err = ps.readMaps(p)
	}
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, proc.ErrHangs): // it may be read later
	case errors.Is(err, fs.ErrPermission):
		count(ps.denied, pid)
	default:
		count(ps.gone, pid)
	}
	return nil, err
}

func count(set map[int]bool, pid int) {
	if len(set) < mostUnseen {
		set[pid] = true
	}
}

func (ps *Processes) readMaps(p *process) error {
	b, err := ps.readFile(p.pid, "maps")
	if err != nil {
		return err
	}
	b, cut := firstLines(b, mostMappings)
	maps, _ := parseMaps(b, ps.shared)
	if len(maps) == 0 && len(p.maps) > 0 {
		return fs.ErrNotExist // the process is ending
	}
	if p.watched && !containsAll(maps, p.maps) {
		p.retire()
	}
	ps.reads++
	p.maps, p.keys, p.read, p.reading = maps, map[int]fileKey{}, time.Now(), ps.reads
	p.exe, p.inside, p.cut, p.frames = "", 0, cut, frameCheck{}
	return nil
}

// exeOf returns the base name of the file that a process executes. It is read on demand.
func (ps *Processes) exeOf(p *process) string {
	if p.exe == "" {
		p.exe, _ = os.Readlink(ps.in(p.pid, "exe"))
		p.exe = strings.TrimSuffix(p.exe, " (deleted)")
	}
	return p.exe
}

// insideOf returns the pid of a process in its own namespace. It is read on demand.
func (ps *Processes) insideOf(p *process) int {
	if p.inside == 0 {
		p.inside = p.pid
		if b, err := proc.ReadFile(ps.in(p.pid, "status"), nil); err == nil {
			p.inside = parseInside(b, p.pid)
		}
	}
	return p.inside
}

// parseInside parses the innermost number of NSpid in /proc/PID/status.
func parseInside(b []byte, pid int) int {
	for line := range bytes.Lines(b) {
		rest, ok := bytes.CutPrefix(line, []byte("NSpid:"))
		if !ok {
			continue
		}
		words := bytes.Fields(rest)
		if len(words) > 0 {
			if n, err := proc.ParseUint(words[len(words)-1]); err == nil && n > 0 && n < 1<<31 {
				return int(n)
			}
		}
	}
	return pid
}

// again reads the maps once more. It returns false when the process has ended, or a read does not
// return; its mappings stay.
func (ps *Processes) again(p *process) bool { return ps.readAgain(p) == nil }

// readAgain reads the maps once more. With an error the mappings stay. The error is fs.ErrNotExist
// when the process has ended.
func (ps *Processes) readAgain(p *process) error {
	p.read = time.Now()
	start, _, err := ps.stat(p.pid)
	if err == nil && start != p.start {
		err = fs.ErrNotExist
	}
	if err != nil {
		return err
	}
	return ps.readMaps(p)
}

// userOf returns the user of a process. It is read on demand.
func (ps *Processes) userOf(p *process) uint32 {
	if p == nil {
		return nobody
	}
	if !p.known {
		var st unix.Stat_t
		if err := unix.Stat(ps.in(p.pid, ""), &st); err != nil {
			return nobody // it has ended
		}
		p.user, p.known = st.Uid, true
	}
	return p.user
}

// nobody is the user of a process that has ended.
const nobody = 65534

// firstLines returns the first n lines of a text, and whether it has more.
func firstLines(b []byte, n int) (first []byte, cut bool) {
	at := 0
	for range n {
		i := bytes.IndexByte(b[at:], '\n')
		if i < 0 {
			return b, false
		}
		at += i + 1
	}
	return b[:at], at < len(b)
}
