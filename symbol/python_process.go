package symbol

import (
	"errors"
	"os"
	"path"
	"slices"
	"time"

	"culprit/symbol/python"
)

// interpreterName returns what the layout of an interpreter needs of the path of its file.
func interpreterName(name string) []byte {
	const most = 128
	name = path.Base(name)
	return []byte(name[max(0, len(name)-most):])
}

// equalLayouts reports whether two files have the same interpreter, or none.
func equalLayouts(a, b *python.Layout) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// readPython answers an OpPython. When the time is over, the other frames have no names.
func readPython(q *Request, a *Answer, until time.Duration) error {
	l, ok := python.Parse(q.Text)
	if !ok || l.Links == python.NoTable {
		return errors.New("not a layout of an interpreter")
	}
	r := python.NewReader(q.File, l)
	for i, w := range q.Addrs {
		var n python.Name
		if i%16 != 0 || threadTime() <= until {
			n = r.Name(python.Word(w))
		}
		a.Names = append(a.Names, Name{Name: clean(n.Function)})
		a.Inlined = append(a.Inlined, []string{clean(n.File)})
		a.Numbers = append(a.Numbers, uint64(n.First), uint64(n.Line))
	}
	return nil
}

// A pythonKey identifies a frame of Python.
type pythonKey struct {
	pid   int
	start uint64 // of the process
	word  python.Word
}

// A pythonKnown is the name of a frame.
type pythonKnown struct {
	name python.Name
	at   time.Time // when it was read
}

// pythonNames caches names of frames of Python.
type pythonNames struct {
	known map[pythonKey]pythonKnown
	bytes int
	// failed is when reading a process last ended without an answer, by its key without a word.
	failed map[pythonKey]time.Time
}

const (
	// mostPythonBytes is how many bytes of names are cached.
	mostPythonBytes = 16 << 20
	// pythonAge is after which time a name is read again: a code object may have been freed, and
	// another one may have its address.
	pythonAge = time.Second
	// pythonPause follows a request for a process that had no answer: its memory may be on a file
	// system that does not answer.
	pythonPause = time.Minute
	// mostPythonWords is how many frames of a process are asked for at once.
	mostPythonWords = 2048
)

// PythonNames returns the names of frames of Python in a process. Those that cannot be read have
// the name that they had before, or none. l is the layout of its interpreter.
func (ps *Processes) PythonNames(pid int, l *python.Layout, words []python.Word) []python.Name {
	out := make([]python.Name, len(words))
	ps.run(func() {
		p, err := ps.process(pid)
		if err != nil {
			return
		}
		ps.learnPython(p, l, words)
		for i, w := range words {
			known, ok := ps.python.known[pythonKey{pid, p.start, w}]
			if !ok { // the process has ended: the line is not known
				w = python.NewWord(w.Code(), python.UnknownInstruction)
				known = ps.python.known[pythonKey{pid, p.start, w}]
			}
			out[i] = known.name
		}
	})
	return out
}

// learnPython asks for the names of frames that are not known, or were read too long ago.
func (ps *Processes) learnPython(p *process, l *python.Layout, words []python.Word) {
	if l == nil || l.Links == python.NoTable {
		return
	}
	who := pythonKey{pid: p.pid, start: p.start}
	if time.Since(ps.python.failed[who]) < pythonPause {
		return
	}
	var addrs []uint64
	for _, w := range words {
		who.word = w
		if known, ok := ps.python.known[who]; !ok || time.Since(known.at) >= pythonAge {
			addrs = append(addrs, uint64(w))
		}
	}
	who.word = 0
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	for n := 0; len(addrs) > 0; n++ {
		part := addrs[:min(len(addrs), mostPythonWords)]
		addrs = addrs[len(part):]
		type partKey struct {
			who pythonKey
			n   int
		}
		if ps.talk.has(partKey{who, n}) {
			continue
		}
		f, err := ps.openMemory(p)
		if err != nil {
			ps.hangs(p.pid, err)
			return
		}
		ps.ask(partKey{who, n}, &query{payer: ps.userOf(p), memory: p.pid, opened: []*os.File{f},
			q: &Request{Op: OpPython, File: f, Text: l.Text(), Addrs: part},
			done: func(a *Answer, err error) {
				if errors.Is(err, ErrFailed) {
					ps.python.fail(who)
				}
				ps.python.store(who, part, a)
			}})
	}
}

// fail records that a process had no answer.
func (c *pythonNames) fail(who pythonKey) {
	if c.failed == nil || len(c.failed) >= mostUsers {
		c.failed = map[pythonKey]time.Time{}
	}
	c.failed[who] = time.Now()
}

// store caches the names of an answer. What could not be read keeps its name.
func (c *pythonNames) store(who pythonKey, words []uint64, a *Answer) {
	if len(a.Names) != len(words) || len(a.Inlined) != len(words) ||
		len(a.Numbers) != 2*len(words) {
		return
	}
	if c.known == nil || c.bytes > mostPythonBytes {
		*c = pythonNames{known: map[pythonKey]pythonKnown{}, failed: c.failed}
	}
	for i, w := range words {
		who.word = python.Word(w)
		one := python.Name{Function: a.Names[i].Name, First: int(a.Numbers[2*i]),
			Line: int(a.Numbers[2*i+1])}
		if len(a.Inlined[i]) > 0 {
			one.File = a.Inlined[i][0]
		}
		before, known := c.known[who]
		if one.Function == "" {
			one = before.name
		}
		if !known {
			c.bytes += 128 + len(one.Function) + len(one.File)
		}
		c.known[who] = pythonKnown{one, time.Now()}
	}
}
