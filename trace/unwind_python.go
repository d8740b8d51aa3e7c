package trace

import (
	"encoding/binary"

	"culprit/lang/gen"
	"culprit/symbol"
	"culprit/symbol/python"
)

// addPython loads the layout of the interpreter in the file of a table; false: the file has none,
// or it does not fit. u.mu is locked.
func (u *unwinder) addPython(number uint32, t *symbol.UnwindTable) bool {
	if t.Python == nil {
		return false
	}
	if u.pythons[number] == t {
		return true
	}
	if u.layouts.Put(number, pythonLayout(t.Python)) != nil {
		return false // too many interpreters
	}
	u.pythons[number] = t
	return true
}

// trimPythons removes the layouts of tables that are not in the kernel any more.
func (u *unwinder) trimPythons() {
	for number, t := range u.pythons {
		if now, there := u.tables.numberOf(t); !there || now != number {
			_ = u.layouts.Delete(number) // cannot fail: it was added
			delete(u.pythons, number)
		}
	}
}

// pythonLayout returns a layout as gen.MapPython contains it.
func pythonLayout(l *python.Layout) gen.PythonLayout {
	t, f := &l.Threads, &l.Frames
	return gen.PythonLayout{
		From:            l.From,
		Size:            l.To - l.From,
		Head:            l.Head,
		Links:           uint32(l.Links),
		NextInterpreter: t.NextInterpreter,
		First:           t.First,
		Next:            t.Next,
		ID:              t.ID,
		Frame:           t.Frame,
		InFrame:         t.InFrame,
		Code:            f.Code,
		Back:            f.Back,
		Instruction:     f.Instruction,
		Owner:           f.Owner,
		Shift:           f.Shift,
		Start:           l.Code.Start,
	}
}

// python returns the layout of the interpreter of a process, which it loads if it is not; nil: it
// has none. u may be nil.
func (u *unwinder) python(pid int) *python.Layout {
	if u == nil {
		return nil
	}
	if l, loaded := u.pythonOf(pid); loaded {
		return l
	}
	u.loadProcess(pid, 0)
	l, _ := u.pythonOf(pid)
	return l
}

// pythonOf returns the layout of the interpreter of a process; !loaded: the process is not loaded.
func (u *unwinder) pythonOf(pid int) (l *python.Layout, loaded bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.procs[pid]
	if p == nil {
		return nil, false
	}
	for i := range p.code {
		if t := p.code[i].Table; t != nil && t.Python != nil {
			return t.Python, true
		}
	}
	return nil, p.code != nil
}

// mostCodes is how many code objects wait for their names. Those of others are read later.
const mostCodes = 4096

// seeCode records a code object in a record of gen.MapWake.
func (u *unwinder) seeCode(b []byte) {
	if len(b) != gen.PythonSeen || u.names == nil {
		return
	}
	pid := int(binary.NativeEndian.Uint32(b)) // the lower half
	w := wordOf(python.Word(binary.NativeEndian.Uint64(b[8:])), false)
	waiting := 0
	for _, words := range u.codes {
		waiting += len(words)
	}
	if pid == 0 || waiting >= mostCodes {
		return
	}
	if u.codes == nil {
		u.codes = map[int][]python.Word{}
	}
	u.codes[pid] = append(u.codes[pid], w)
}

// readCodes reads the names of new code objects before their processes end.
func (u *unwinder) readCodes() {
	for pid, words := range u.codes {
		u.names.PythonNames(pid, u.python(pid), words)
	}
	clear(u.codes)
}
