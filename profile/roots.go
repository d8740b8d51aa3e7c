package profile

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"culprit/container"
)

// The fields of threads by which stacks are grouped.
const (
	ByProcess   = "process"
	ByThread    = "thread"
	ByContainer = "container"
)

// RootFields returns the fields of threads by which stacks are grouped.
func RootFields() []string { return []string{ByProcess, ByThread, ByContainer} }

// Roots are the outermost frames of stacks: fields of the thread that they are of.
type Roots struct {
	By   []string // fields, in the order of the frames
	PIDs bool     // names of processes have their ID behind them
	TIDs bool     // names of threads have their ID behind them, and threads of a pool stay apart
}

// A Thread is the thread that a stack is of.
type Thread struct {
	Process, Name string // as the kernel or the runtime keeps them; "": unknown
	PID, TID      int    // PID below 0: unknown; TID is used for Roots.TIDs only
	Cgroup        string // path of the control group, as in /proc/PID/cgroup; "": unknown
}

// Frames returns the names of the outermost frames of a thread's stacks, outermost first.
func (r *Roots) Frames(t Thread) []string {
	out := make([]string, 0, len(r.By))
	for _, field := range r.By {
		switch field {
		case ByProcess:
			out = append(out, r.process(t))
		case ByThread:
			out = append(out, r.thread(t))
		case ByContainer:
			out = append(out, containerFrame(t.Cgroup))
		}
	}
	return out
}

func (r *Roots) process(t Thread) string {
	switch {
	case t.Process == "" && t.PID == 0: // an idle CPU
		return t.Name
	case t.Process == "" && t.PID < 0:
		return "[process unknown]"
	case t.Process == "":
		return "[process " + strconv.Itoa(t.PID) + "]"
	case r.PIDs:
		return t.Process + "-" + strconv.Itoa(t.PID)
	}
	return t.Process
}

func (r *Roots) thread(t Thread) string {
	name := cmp.Or(t.Name, unnamedThread)
	if r.TIDs {
		return name + "-" + strconv.Itoa(t.TID)
	}
	return PoolName(name)
}

// unnamedThread is the frame of threads without a name.
const unnamedThread = "[thread without a name]"

// containerFrame returns the frame of a container by the path of its control group.
func containerFrame(cgroup string) string {
	if cgroup == "" {
		return "[container unknown]"
	}
	if name := container.Parse(cgroup).Container(); name != "" {
		return name
	}
	return "[no container]"
}

// PoolName returns the name that all threads of a pool share: worker-* of worker-17, kworker/* of
// kworker/3:1H-kblockd. The number ends the name and follows a sign or a blank; names whose digits
// follow a letter, such as python3, are unchanged.
func PoolName(name string) string {
	const kworker = "kworker/"
	if strings.HasPrefix(name, kworker) {
		return kworker + "*"
	}
	base := strings.TrimRight(name, "0123456789")
	if len(base) == len(name) || len(base) < 2 ||
		strings.IndexByte("-#_/: ", base[len(base)-1]) < 0 {
		return name
	}
	return base + "*"
}

// knownFields are the formats whose stacks have fields of threads.
//
// table: the formats whose readers use Options.roots
var knownFields = map[Format][]string{
	Perf:     {ByProcess, ByThread},
	PerfData: {ByProcess, ByThread},
	JFR:      {ByThread},
	JStack:   {ByThread},
}

// checkRoots returns an error if stacks of a format lack a field of By.
func (o *Options) checkRoots(f Format) error {
	for _, field := range o.By {
		if slices.Contains(knownFields[f], field) {
			continue
		}
		what := fmt.Sprintf(
			"--by %s: the format, %s, does not name the %s of a stack", field, f, field)
		switch known := knownFields[f]; {
		case len(known) > 0:
			what += ", only the " + strings.Join(known, " and the ")
		case f == PProf || f == OTLP:
			what += "; --label NAME groups by a label"
		case f == Folded || f == FoldedTwice:
			what += "; without --by its frames stay as they are"
		default:
			what += "; perf script and perf.data have process and thread, JFR and jstack thread"
		}
		return &ParseError{Line: 1, What: what}
	}
	return nil
}

// roots returns the outermost frames that the options select.
func (o *Options) roots() *Roots { return &Roots{By: o.By, PIDs: o.PID, TIDs: o.TID} }

// The process of a thread whose first thread may be sampled later is a function with this name and
// its ID, until leaders.rename.
const pendingProcess = "\x01process "

// leaders are the names of processes by ID: those of their first threads.
type leaders map[string]string

// rename returns the tree with names of the processes that were pending. Those of unknown name are
// called by their ID; their number is in a note.
func (l leaders) rename(t *Tree, pids bool) *Tree {
	functions, to := slices.Clone(t.Functions), make([]uint32, len(t.Functions))
	known, unknown := map[string]uint32{}, 0
	for i := range functions {
		to[i] = uint32(i)
		if f := &functions[i]; f.Kind == Process && !strings.HasPrefix(f.Name, pendingProcess) {
			known[f.Name] = uint32(i)
		}
	}
	same := true
	for i := range functions {
		f := &functions[i]
		id, pending := strings.CutPrefix(f.Name, pendingProcess)
		if f.Kind != Process || !pending {
			continue
		}
		same = false
		name, ok := l[id]
		switch {
		case !ok:
			unknown++
			name = "[process " + id + "]"
		case pids:
			name += "-" + id
		}
		if k, ok := known[name]; ok {
			to[i] = k
			continue
		}
		f.Name, known[name] = name, uint32(i)
	}
	if same {
		return t
	}
	if unknown > 0 {
		t.note(plural(unknown, "process has", "processes have") +
			" no name, since the first thread has no sample: shown by ID")
	}
	return t.Regroup(functions, to)
}

// perfRoots returns the outermost frames of a sample of perf script, the innermost first, each
// ended by a zero byte. It returns the field that the sample lacks, or "".
func (p *perfLines) perfRoots(h *perfHead) (frames []byte, lacks string) {
	command := replaced(replaced(slices.Clone(h.command), ' ', '_'), ';', ':')
	known := func(id []byte) bool { return len(id) > 0 && id[0] != '?' }
	frames = p.process[:0]
	for _, field := range slices.Backward(p.o.By) {
		switch {
		case field == ByProcess && !known(h.pid):
			return frames, "pid"
		case field == ByThread && p.o.TID && !known(h.tid):
			return frames, "tid"
		case len(command) == 0:
			return frames, "comm"
		case field == ByThread && p.o.TID:
			frames = append(append(append(frames, command...), '-'), h.tid...)
		case field == ByThread && command[0] == ':' && bytes.Equal(command[1:], h.tid):
			frames = append(frames, unnamedThread...) // perf writes :TID
		case field == ByThread:
			frames = append(frames, PoolName(string(command))...)
		case !bytes.Equal(h.pid, h.tid):
			frames = append(append(frames, pendingProcess...), h.pid...)
		default:
			if _, ok := p.leaders[string(h.pid)]; !ok {
				p.o.meter.add(jsonEntry + len(command))
			}
			p.leaders[string(h.pid)] = string(command)
			if frames = append(frames, command...); p.o.PID {
				frames = append(append(frames, '-'), h.pid...)
			}
		}
		frames = append(frames, 0)
	}
	return frames, ""
}
