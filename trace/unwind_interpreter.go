package trace

import (
	"encoding/binary"

	"culprit/lang/gen"
	"culprit/symbol/interp"
	"culprit/symbol/unwind"
)

// addInterpreter loads the layout of the interpreter in the file of a table; false: the file has
// none, or it does not fit. u.mu is locked.
func (u *unwinder) addInterpreter(number uint32, t *unwind.Table) bool {
	if t.Interpreter == nil {
		return false
	}
	if u.interpreters[number] == t {
		return true
	}
	if u.layouts.Put(number, layoutOf(t.Interpreter)) != nil {
		return false // too many interpreters
	}
	u.interpreters[number] = t
	return true
}

// trimInterpreters removes the layouts of tables that are not in the kernel any more.
func (u *unwinder) trimInterpreters() {
	for number, t := range u.interpreters {
		if now, there := u.tables.numberOf(t); !there || now != number {
			_ = u.layouts.Delete(number) // cannot fail: it was added
			delete(u.interpreters, number)
		}
	}
}

// layoutOf returns a layout as gen.MapInterpreter contains it.
func layoutOf(l interp.Layout) gen.InterpreterLayout {
	k := l.Kernel()
	return gen.InterpreterLayout{
		From:       k.From,
		Size:       k.To - k.From,
		Around:     k.Around,
		AroundSize: k.AroundTo - k.Around,
		Head:       k.Head,
		Language:   uint32(l.Language()),
		Numbers:    k.Numbers,
	}
}

// interpreter returns the layout of the interpreter of a process, which it loads if it is not; nil:
// it has none. u may be nil.
func (u *unwinder) interpreter(pid int) interp.Layout {
	if u == nil {
		return nil
	}
	if l, loaded := u.interpreterOf(pid); loaded {
		return l
	}
	u.loadProcess(pid, 0)
	l, _ := u.interpreterOf(pid)
	return l
}

// interpreterOf returns the layout of the interpreter of a process; !loaded: the process is not
// loaded.
func (u *unwinder) interpreterOf(pid int) (l interp.Layout, loaded bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	p := u.procs[pid]
	if p == nil {
		return nil, false
	}
	for i := range p.code {
		if t := p.code[i].Table; t != nil && t.Interpreter != nil {
			return t.Interpreter, true
		}
	}
	return nil, p.code != nil
}

// mostCodes is how many code objects wait for their names. Those of others are read later.
const mostCodes = 4096

// seeCode records a code object in a record of gen.MapWake.
func (u *unwinder) seeCode(b []byte) {
	if len(b) != gen.CodeSeen || u.names == nil {
		return
	}
	pid := int(binary.NativeEndian.Uint32(b)) // the lower half
	f := interp.Frame{Word: wholeOf(interp.Word(binary.NativeEndian.Uint64(b[8:]))),
		Method: binary.NativeEndian.Uint64(b[16:])}
	waiting := 0
	for _, words := range u.codes {
		waiting += len(words)
	}
	if pid == 0 || waiting >= mostCodes {
		return
	}
	if u.codes == nil {
		u.codes = map[int][]interp.Frame{}
	}
	u.codes[pid] = append(u.codes[pid], f)
}

// readCodes reads the names of new code objects before their processes end.
func (u *unwinder) readCodes() {
	for pid, words := range u.codes {
		u.names.FrameNames(pid, u.interpreter(pid), words)
	}
	clear(u.codes)
}
