package symbol

import (
	"cmp"
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"time"

	"culprit/symbol/interp"
	"culprit/symbol/interp/languages"
)

// interpreterName returns what the layout of an interpreter needs of the path of its file.
func interpreterName(name string) []byte {
	const most = 128
	name = path.Base(name)
	return []byte(name[max(0, len(name)-most):])
}

// equalLayouts reports whether two files have the same interpreter, or none.
func equalLayouts(a, b interp.Layout) bool {
	return slices.Equal(languages.Numbers(a), languages.Numbers(b))
}

// readFrames answers an OpFrames. When the time is over, the other frames have no names.
func readFrames(q *Request, a *Answer, until time.Duration) error {
	numbers := interp.NumbersOf(q.Text, languages.MostNumbers+len(q.Addrs))
	if len(numbers) < len(q.Addrs) {
		return errors.New("frames without methods")
	}
	methods, numbers := numbers[:len(q.Addrs)], numbers[len(q.Addrs):]
	l := languages.FromNumbers(numbers)
	if l == nil || l.Why() != "" {
		return errors.New("not a layout of an interpreter")
	}
	r := l.NewReader(q.File)
	for i, w := range q.Addrs {
		var n interp.Name
		if i%16 != 0 || threadTime() <= until {
			n = r.Name(interp.Frame{Word: interp.Word(w), Method: methods[i]})
		}
		a.Names = append(a.Names, Name{Name: clean(n.Function)})
		a.Inlined = append(a.Inlined, append([]string{clean(n.File)}, textsOf(n.Caller)...))
		a.Numbers = append(a.Numbers, uint64(n.First), uint64(n.Line))
	}
	return nil
}

// mostInlinedFrames is how many functions of an interpreter are inlined into one another at most.
const mostInlinedFrames = 15

// textsOf returns the functions into which one is inlined as texts: for each the function, the
// file, the first line, the line.
func textsOf(n *interp.Name) (out []string) {
	for ; n != nil && len(out) < 4*mostInlinedFrames; n = n.Caller {
		out = append(out, clean(n.Function), clean(n.File), strconv.Itoa(n.First),
			strconv.Itoa(n.Line))
	}
	return out
}

// callersOf returns the functions that textsOf has made texts of.
func callersOf(texts []string) *interp.Name {
	var out *interp.Name
	for i := len(texts)/4 - 1; i >= 0; i-- {
		t := texts[4*i:]
		first, _ := strconv.Atoi(t[2]) // 0: unknown
		line, _ := strconv.Atoi(t[3])
		out = &interp.Name{Function: t[0], File: t[1], First: first, Line: line, Caller: out}
	}
	return out
}

// A frameKey identifies a frame of an interpreter.
type frameKey struct {
	pid   int
	start uint64 // of the process
	word  interp.Word
}

// A knownFrame is the name of a frame.
type knownFrame struct {
	name   interp.Name
	method uint64    // with which it was read
	at     time.Time // when it was read
}

// frameNames caches names of frames of interpreters.
type frameNames struct {
	known map[frameKey]knownFrame
	bytes int
	// methods are the methods of code objects, by their keys without an instruction.
	methods map[frameKey]uint64
	// failed is when reading a process last ended without an answer, by its key without a word.
	failed map[frameKey]time.Time
}

const (
	// mostFrameBytes is how many bytes of names are cached.
	mostFrameBytes = 16 << 20
	// frameAge is after which time a name is read again: a code object may have been freed, and
	// another one may have its address.
	frameAge = time.Second
	// framePause follows a request for a process that had no answer: its memory may be on a file
	// system that does not answer.
	framePause = time.Minute
	// mostFrames is how many frames of a process are asked for at once. Their methods fit in the
	// text of a request.
	mostFrames = 2048
	// mostMethods is how many methods are remembered.
	mostMethods = 1 << 16
)

// withoutInstruction returns the frame of which only the code object is known.
func withoutInstruction(w interp.Word) interp.Word {
	return interp.NewWord(w.Code(), interp.UnknownInstruction)
}

// FrameNames returns the names of frames of an interpreter in a process. Those that cannot be read
// have the name that they had before, or none. l is the layout of the interpreter. A method is
// remembered for later calls.
func (ps *Processes) FrameNames(pid int, l interp.Layout, frames []interp.Frame) []interp.Name {
	out := make([]interp.Name, len(frames))
	ps.run(func() {
		p, err := ps.process(pid)
		if err != nil {
			return
		}
		ps.learnFrames(p, l, frames)
		for i := range frames {
			w := frames[i].Word
			known, ok := ps.frames.known[frameKey{pid, p.start, w}]
			if !ok { // the process has ended: the line is not known
				known = ps.frames.known[frameKey{pid, p.start, withoutInstruction(w)}]
			}
			out[i] = known.name
		}
	})
	return out
}

// method returns the method of a frame, and remembers it if the frame has it.
func (c *frameNames) method(who frameKey, f interp.Frame) uint64 {
	who.word = withoutInstruction(f.Word)
	if f.Method == 0 {
		return c.methods[who]
	}
	if c.methods == nil || len(c.methods) >= mostMethods {
		c.methods = map[frameKey]uint64{}
	}
	c.methods[who] = f.Method
	return f.Method
}

// learnFrames asks for the names of frames that are not known, or were read too long ago.
func (ps *Processes) learnFrames(p *process, l interp.Layout, frames []interp.Frame) {
	if l == nil || l.Why() != "" {
		return
	}
	who := frameKey{pid: p.pid, start: p.start}
	if time.Since(ps.frames.failed[who]) < framePause {
		return
	}
	var unknown []interp.Frame
	for _, f := range frames {
		f.Method = ps.frames.method(who, f)
		who.word = f.Word
		if known, ok := ps.frames.known[who]; !ok || time.Since(known.at) >= frameAge ||
			known.method != f.Method {
			unknown = append(unknown, f)
		}
	}
	who.word = 0
	slices.SortFunc(unknown, func(a, b interp.Frame) int { return cmp.Compare(a.Word, b.Word) })
	unknown = slices.CompactFunc(unknown, func(a, b interp.Frame) bool { return a.Word == b.Word })
	for n := 0; len(unknown) > 0; n++ {
		part := unknown[:min(len(unknown), mostFrames)]
		unknown = unknown[len(part):]
		type partKey struct {
			who frameKey
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
		var words, methods []uint64
		for _, one := range part {
			words, methods = append(words, uint64(one.Word)), append(methods, one.Method)
		}
		ps.ask(partKey{who, n}, &query{payer: ps.userOf(p), memory: p.pid, opened: []*os.File{f},
			q: &Request{Op: OpFrames, File: f, Addrs: words,
				Text: interp.Text(append(methods, languages.Numbers(l)...))},
			done: func(a *Answer, err error) {
				if errors.Is(err, ErrFailed) {
					ps.frames.fail(who)
				}
				ps.frames.store(who, part, a)
			}})
	}
}

// fail records that a process had no answer.
func (c *frameNames) fail(who frameKey) {
	if c.failed == nil || len(c.failed) >= mostUsers {
		c.failed = map[frameKey]time.Time{}
	}
	c.failed[who] = time.Now()
}

// store caches the names of an answer. What could not be read keeps its name.
func (c *frameNames) store(who frameKey, frames []interp.Frame, a *Answer) {
	if len(a.Names) != len(frames) || len(a.Inlined) != len(frames) ||
		len(a.Numbers) != 2*len(frames) {
		return
	}
	if c.known == nil || c.bytes > mostFrameBytes {
		*c = frameNames{known: map[frameKey]knownFrame{}, methods: c.methods, failed: c.failed}
	}
	for i, f := range frames {
		who.word = f.Word
		one := interp.Name{Function: a.Names[i].Name, First: int(a.Numbers[2*i]),
			Line: int(a.Numbers[2*i+1])}
		if len(a.Inlined[i]) > 0 {
			one.File, one.Caller = a.Inlined[i][0], callersOf(a.Inlined[i][1:])
		}
		before, known := c.known[who]
		if one.Function == "" {
			one = before.name
		}
		if !known {
			c.bytes += 128 + len(one.Function) + len(one.File)
			for n := one.Caller; n != nil; n = n.Caller {
				c.bytes += 128 + len(n.Function) + len(n.File)
			}
		}
		c.known[who] = knownFrame{one, f.Method, time.Now()}
	}
}
