package flame

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// perfLines reads what perf script prints: for each sample a line that tells of it, then a frame a line, the innermost first, then an
// empty line.
//
//	java 12688/12764 [002] 6544038.708352:     235 cpu-clock:uhH:
//	        ffffffff8103ce3b native_safe_halt+0x6 ([kernel.kallsyms])
//	            7f1e2215d058 __read+0xd (/lib/x86_64-linux-gnu/libc-2.15.so)
//
// Most stacks and most lines were there before: what they came to is kept by hashes of 64 bits, for stacks two with seeds of their own, which are
// taken for the bytes. Of a stack that is known no line is looked at.
type perfLines struct {
	b       *Builder // of the functions
	s       stash
	o       Options
	seeds   [2]maphash.Seed
	cache   outside[perfLine]  // by the hash of the line, without its address, and of whether the process is Java's
	several [][]uint32         // what lines came to that are not one function
	known   outside[perfStack] // by the hash of the stack's text and the process
	key     [2]uint64          // of the stack that is being read; zero: it is not to be kept
	begun   int                // the first line behind the sample's
	missed  int                // lines that were not there, since there is room for so many
	strange int                // stacks, the same
	process []byte
	text    []byte // of a function, while it is looked up
	java    bool
	period  float64
	inside  bool // a sample
	skip    bool // and it is of another event
	found   bool // a sample was seen
	event   []byte
	others  map[string]int // samples of other events
	stack   []uint32       // innermost first
	wrong   skipped
	samples int
}

// A perfLine is what a line came to.
type perfLine struct {
	hash uint64
	is   int32 // a function, or below 0 the complement of an index into several; 0 is free
}

// A perfStack is what the lines of a stack came to.
type perfStack struct {
	key   [2]uint64
	stack int32
	lines int32 // 0 is free
}

// stackPlace gives where a stack is; where it is not, the place that it may have: one that is free, or the one of a stack that is thrown out.
func stackPlace(all []perfStack, key *[2]uint64) *perfStack {
	at, mask := key[0], uint64(len(all)-1)
	for way := range uint64(stackWays) {
		if e := &all[(at+way)&mask]; e.lines == 0 || e.key == *key {
			return e
		}
	}
	return &all[(at+key[1]%stackWays)&mask]
}

// stackWays is in how many places a stack may be.
const stackWays = 4

// How many lines and stacks are kept, at first and at most. One that is thrown out is read anew.
const (
	firstKept  = 1 << 8
	mostLines  = 1 << 14
	mostStacks = 1 << 16
	// There is room for more lines when so many times the room was not enough; for more stacks when half of it may be taken.
	patienceKept = 2
)

func newPerf(o Options) *perfLines {
	p := &perfLines{b: NewBuilder(), o: o, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, cache: newOutside[perfLine](firstKept),
		known: newOutside[perfStack](firstKept), others: map[string]int{}}
	p.event = []byte(o.Event)
	return p
}

func (p *perfLines) line(b []byte, n int) error {
	switch {
	case len(b) == 0:
		p.sample(n)
	case b[0] == '#':
	case p.inside:
		if !p.skip {
			p.frame(b, n)
		}
	default:
		if b = bytes.TrimRight(b, " \t"); len(b) == 0 {
			p.sample(n)
			return nil
		}
		p.head(b, n)
	}
	return nil
}

// A perfHead is what the line of a sample says.
type perfHead struct {
	command, pid, tid, event, rest []byte
	period                         float64
}

// parsePerfHead takes a sample's line apart: command, thread or process/thread, [CPU], flags, time, period and event, of which
// but the command and the number may be absent. Rest is what comes behind the event: a frame, or what a tracepoint tells.
func parsePerfHead(b []byte) (h perfHead, ok bool) {
	// The command may hold blanks and numbers of its own: it ends before the first word that is a number and is not the first.
	at := 0
	for at < len(b) {
		for at < len(b) && (b[at] == ' ' || b[at] == '\t') {
			at++
		}
		end := at
		for end < len(b) && b[end] != ' ' && b[end] != '\t' {
			end++
		}
		word := b[at:end]
		pid, tid, both := bytes.Cut(word, []byte("/"))
		if at > 0 && isDigits(pid) && (!both || isDigits(tid)) && end < len(b) {
			if h.command = bytes.TrimSpace(b[:at]); len(h.command) > 0 {
				if h.pid, h.tid = pid, tid; !both {
					h.pid, h.tid = []byte("?"), pid
				}
				at = end
				ok = true
				break
			}
		}
		at = end
	}
	if !ok {
		return h, false
	}
	h.period = 1
	number := []byte(nil)
	for at < len(b) {
		for at < len(b) && (b[at] == ' ' || b[at] == '\t') {
			at++
		}
		end := at
		for end < len(b) && b[end] != ' ' && b[end] != '\t' {
			end++
		}
		word := b[at:end]
		at = end
		switch {
		case len(word) == 0:
		case word[len(word)-1] == ':' && isTime(word[:len(word)-1]):
		case isDigits(word):
			number = word
		case word[len(word)-1] == ':':
			h.event = word[:len(word)-1]
			if v := parseCount(number); v > 0 {
				h.period = v
			}
			h.rest = bytes.TrimSpace(b[end:])
			return h, true
		}
	}
	return h, true
}

// cutModifiers takes what says whose events are counted off an event: cycles:u, cpu-clock:uhH.
func cutModifiers(event []byte) []byte {
	if i := bytes.LastIndexByte(event, ':'); i > 0 && len(bytes.Trim(event[i+1:], "ukhpPGHISDWeb")) == 0 {
		return event[:i]
	}
	return event
}

func isTime(b []byte) bool {
	whole, part, _ := bytes.Cut(b, []byte("."))
	return isDigits(whole) && isDigits(part)
}

// parseCount reads digits; 0 when they are none.
func parseCount(b []byte) float64 {
	n := uint64(0)
	for _, c := range b {
		if c < '0' || c > '9' || n > 1<<59 {
			return 0
		}
		n = 10*n + uint64(c-'0')
	}
	return float64(n)
}

func (p *perfLines) head(b []byte, n int) {
	p.inside, p.begun = true, n+1
	h, ok := parsePerfHead(b)
	if !ok {
		p.skip = true
		p.wrong.skip(n, "neither the line of a sample nor a frame: command, number, time, event")
		return
	}
	p.found, p.skip = true, false
	if len(h.event) > 0 {
		if len(p.event) == 0 {
			p.event = slices.Clone(cutModifiers(h.event))
		}
		if !bytes.Equal(h.event, p.event) && !bytes.Equal(cutModifiers(h.event), p.event) {
			p.skip = true
			if len(p.others) < 100 {
				p.others[string(cutModifiers(h.event))]++
			}
			return
		}
	}
	p.process = append(p.process[:0], h.command...)
	replaced(p.process, ' ', '_')
	switch {
	case p.o.TID:
		p.process = append(append(append(append(p.process, '-'), h.pid...), '/'), h.tid...)
	case p.o.PID:
		p.process = append(append(p.process, '-'), h.pid...)
	}
	replaced(p.process, ';', ':')
	p.java = bytes.HasPrefix(p.process, []byte("java"))
	p.period = h.period
	if len(h.rest) > 0 {
		if _, _, _, ok := parsePerfFrame(h.rest); ok { // the only frame of a sample
			p.frame(h.rest, n)
			p.sample(n)
		}
	}
}

// parsePerfFrame takes a frame's line apart: address name (file). The name may hold blanks and parentheses, and so may the file.
func parsePerfFrame(b []byte) (address, name, file []byte, ok bool) {
	b = bytes.Trim(b, " \t")
	end := 0
	for end < len(b) && (b[end] >= '0' && b[end] <= '9' || b[end] >= 'a' && b[end] <= 'f') {
		end++
	}
	if end == 0 || end >= len(b) || b[end] != ' ' || b[len(b)-1] != ')' {
		return nil, nil, nil, false
	}
	address = b[:end]
	depth, at := 0, len(b)
	for at--; at > end; at-- {
		if b[at] == ')' {
			depth++
		} else if b[at] == '(' {
			if depth--; depth == 0 {
				break
			}
		}
	}
	if at <= end || b[at-1] != ' ' {
		return nil, nil, nil, false
	}
	return address, bytes.Trim(b[end:at], " "), b[at+1 : len(b)-1], true
}

// block takes the stack of the sample whose line was the last one, if it is known and whole; it gives how many bytes and lines that
// were, or that it wants more bytes to be there.
func (p *perfLines) block(b []byte, n int) (bytesTaken, lines int) {
	if !p.inside || len(p.stack) > 0 || p.begun != n {
		return 0, 0
	}
	end := bytes.Index(b, []byte("\n\n"))
	if end < 0 {
		return moreBytes, 0
	}
	if end == 0 {
		return 0, 0
	}
	if p.skip {
		p.sample(n)
		return end + 2, bytes.Count(b[:end+2], []byte("\n"))
	}
	// The process is no part of the block. Its hash is stirred in.
	for i, seed := range p.seeds {
		p.key[i] = maphash.Bytes(seed, b[:end]) ^ maphash.Bytes(seed, p.process)*0x9e3779b97f4a7c15
	}
	e := stackPlace(p.known.all, &p.key)
	if e.key != p.key || e.lines == 0 {
		return 0, 0
	}
	p.s.add(e.stack, p.period)
	p.samples++
	p.inside, p.key = false, [2]uint64{}
	return end + 2, int(e.lines)
}

func (p *perfLines) frame(b []byte, n int) {
	key := b
	if !p.o.Addresses { // the address says nothing
		at := 0
		for at < len(b) && (b[at] == ' ' || b[at] == '\t') {
			at++
		}
		for at < len(b) && b[at] != ' ' {
			at++
		}
		key = b[at:]
	}
	hash := maphash.Bytes(p.seeds[0], key)
	if p.java {
		hash++
	}
	e := &p.cache.all[hash&uint64(len(p.cache.all)-1)]
	if e.hash != hash || e.is == 0 {
		if p.missed++; p.missed > patienceKept*len(p.cache.all) && len(p.cache.all) < mostLines {
			p.missed = 0
			p.cache.widen(func(all []perfLine, e *perfLine) {
				if e.is != 0 {
					all[e.hash&uint64(len(all)-1)] = *e
				}
			})
			e = &p.cache.all[hash&uint64(len(p.cache.all)-1)]
		}
		first := len(p.stack)
		var ok bool
		if p.stack, ok = p.functions(p.stack, b); !ok {
			p.wrong.skip(n, "no frame: address, name and (file)")
			return
		}
		e.hash = hash
		if len(p.stack) == first+1 {
			e.is = int32(p.stack[first])
		} else if len(p.several) < mostLines {
			p.several = append(p.several, slices.Clone(p.stack[first:]))
			e.is = -int32(len(p.several))
		} else {
			e.is = 0
		}
		return
	}
	if e.is > 0 {
		p.stack = append(p.stack, uint32(e.is))
		return
	}
	p.stack = append(p.stack, p.several[-e.is-1]...)
}

// functions gives what a line stands for, innermost first: a name may have what was inlined behind it, a->b->c.
func (p *perfLines) functions(out []uint32, b []byte) ([]uint32, bool) {
	address, name, file, ok := parsePerfFrame(b)
	if !ok {
		if len(bytes.TrimSpace(b)) == 0 {
			return out, true
		}
		return out, false
	}
	if name = cutOffset(name); len(name) > 0 && name[0] == '(' {
		return out, true // the name of a process
	}
	if len(name) == 0 {
		name = []byte(" ")
	}
	name = withoutRust(name)
	kind := kindByFile(file)
	module := baseName(file)
	if kind == Inlined || string(file) == "[unknown]" {
		module = nil
	}
	first := len(out)
	for i := 0; ; i++ {
		one, rest, more := bytes.Cut(name, []byte("->"))
		text := p.text[:0]
		switch {
		case string(one) != "[unknown]":
			text = append(text, withoutArguments(one)...)
		case string(file) == "[unknown]" && !p.o.Addresses:
			text = append(text, one...)
		default:
			known := baseName(file)
			if string(file) == "[unknown]" {
				known = []byte("unknown")
			}
			text = append(append(text, '['), known...)
			if p.o.Addresses {
				text = append(append(append(text, " <"...), address...), '>')
			}
			text = append(text, ']')
		}
		replaced(text, ';', ':')
		if p.java && len(text) > 0 && text[0] == 'L' && bytes.IndexByte(text, '/') >= 0 {
			text = text[:copy(text, text[1:])]
		}
		k := kind
		switch {
		case i > 0:
			k = Inlined
			if !bytes.Contains(text, []byte("_[i]")) {
				text = append(text, "_[i]"...)
			}
		case p.o.Marks && kind == Kernel && !bytes.HasPrefix(file, []byte("bpf_prog_")):
			text = append(text, "_[k]"...)
		case p.o.Marks && kind == JIT && !bytes.Contains(text, []byte("_[j]")):
			text = append(text, "_[j]"...)
		}
		out = append(out, p.b.Function(text, module, k))
		p.text = text[:0]
		if !more {
			break
		}
		name = rest
	}
	slices.Reverse(out[first:])
	return out, true
}

// sample adds the stack that was gathered.
func (p *perfLines) sample(n int) {
	if p.inside && !p.skip {
		p.stack = append(p.stack, p.b.Function(p.process, nil, Process))
		if len(p.stack) > MostDepth {
			p.stack = p.stack[len(p.stack)-MostDepth:]
			p.s.cut++
		}
		slices.Reverse(p.stack)
		stack := p.s.stack(p.stack)
		p.s.add(stack, p.period)
		p.samples++
		if p.key != [2]uint64{} {
			if p.strange++; p.strange > len(p.known.all)/2 && len(p.known.all) < mostStacks {
				p.strange = 0
				p.known.widen(func(all []perfStack, e *perfStack) {
					if e.lines != 0 {
						*stackPlace(all, &e.key) = *e
					}
				})
			}
			e := stackPlace(p.known.all, &p.key)
			*e = perfStack{p.key, stack, int32(n - p.begun + 1)}
		}
	}
	p.stack, p.inside, p.skip, p.key = p.stack[:0], false, false, [2]uint64{}
}

// close lets go of what is needed as long as there are lines.
func (p *perfLines) close() {
	p.cache.close()
	p.known.close()
	p.several = nil
}

func (p *perfLines) end(n int) (*Tree, error) {
	p.sample(n)
	p.close()
	t := p.s.tree(p.b, p.o.Least)
	t.Samples = float64(p.samples)
	if t.Sum() != t.Samples {
		t.Unit = eventUnit(string(p.event))
	}
	if len(p.others) > 0 {
		t.note(othersNote(string(p.event), p.others))
	}
	if !p.found {
		return nil, &ParseError{Line: max(1, p.wrong.first), What: "no samples in it"}
	}
	if t.Sum() == 0 && p.o.Event != "" && len(p.others) > 0 {
		return nil, &ParseError{Line: 1, What: "no samples of event " + p.o.Event + " in it; " + othersNote("", p.others)}
	}
	return p.wrong.tell(t)
}

// eventUnit gives what an event's period counts.
func eventUnit(event string) string {
	name, _, _ := bytes.Cut([]byte(event), []byte(":"))
	switch string(name) {
	case "cpu-clock", "task-clock":
		return "ns"
	case "":
		return "samples"
	}
	return string(name)
}
