package profile

import (
	"bytes"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// perfLines reads the output of perf script: for each sample a line about it, then a line per
// frame, innermost first, then an empty line.
//
//	java 12688/12764 [002] 6544038.708352:     235 cpu-clock:uhH:
//	        ffffffff8103ce3b native_safe_halt+0x6 ([kernel.kallsyms])
//	            7f1e2215d058 __read+0xd (/lib/x86_64-linux-gnu/libc-2.15.so)
//
// Most lines and stacks repeat, so their results are cached by hash: 64 bits for a line, two hashes
// with different seeds for a stack. Equal hashes are taken as equal text. The lines of a known
// stack are not parsed.
type perfLines struct {
	b     *Builder // of the functions
	s     stackSet
	o     Options
	seeds [2]maphash.Seed
	// cache is by the hash of the line without its address, and of whether the process is Java.
	cache        offHeap[perfLine]
	several      [][]uint32         // results of lines that are not exactly one function
	known        offHeap[perfStack] // by the hash of the stack's text and the process
	key          [2]uint64          // of the current stack; zero: it is not cached
	firstFrame   int                // the line after the sample's
	missedLines  int                // lines not found since the cache grew
	missedStacks int                // stacks not found since the cache grew
	process      []byte             // names of the outermost frames, innermost first, 0 after each
	leaders      leaders
	lacks        *ParseError // a sample lacks a field of Options.By
	text         []byte      // of a function, during its lookup
	java         bool
	period       float64
	inside       bool // within a sample
	skip         bool // the sample is of another event
	found        bool // a sample was read
	headless     bool // samples have no line of their own: a stack begins after an empty line
	event        []byte
	others       map[string]int // number of samples of other events
	kinds        map[string]int // number of samples by kind of CPU: cpu_core/cycles/
	pending      []byte         // a line that begins a sample if a frame follows
	framed       bool           // a sample had a frame
	stack        []uint32       // innermost first
	wrong        skipped
	samples      int
	timer        *timer
	thread       uint32  // of the current sample, for the timer
	time         float64 // ns, as above; NaN: unknown
}

// A perfLine is the cached result of a line.
type perfLine struct {
	hash uint64
	is   int32 // a function; below 0 the complement of an index into several; 0: free
}

// A perfStack is the cached result of a stack.
type perfStack struct {
	key   [2]uint64
	stack int32
	lines int32 // 0: free
}

// findStack returns the slot of a stack. If the stack is not cached, it returns a free slot or one
// to evict.
func findStack(all []perfStack, key *[2]uint64) *perfStack {
	at, mask := key[0], uint64(len(all)-1)
	for way := range uint64(stackWays) {
		if e := &all[(at+way)&mask]; e.lines == 0 || e.key == *key {
			return e
		}
	}
	return &all[(at+key[1]%stackWays)&mask]
}

// stackWays is the number of slots in which a stack can be.
const stackWays = 4

// The sizes of the caches. Evicted lines and stacks are parsed again.
const (
	firstKept = 1 << 8
	maxLines  = 1 << 14
	maxStacks = 1 << 16
	// The cache of lines grows after missesPerLine misses per line, that of stacks after a miss for
	// every second stack.
	missesPerLine = 2
)

func newPerf(o Options) *perfLines {
	p := &perfLines{b: o.builder(), s: stackSet{meter: o.meter}, o: o,
		seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		cache: newOffHeap[perfLine](firstKept), known: newOffHeap[perfStack](firstKept),
		others: map[string]int{}, kinds: map[string]int{}, leaders: leaders{}}
	p.event, p.timer = []byte(o.Event), o.timer(true)
	return p
}

func (p *perfLines) line(b []byte, n int) error {
	switch {
	case len(b) == 0:
		p.sample(n)
		p.pending = p.pending[:0]
	case b[0] == '#' && !p.headOf(b):
	case p.inside:
		p.within(b, n)
	default:
		if b = bytes.TrimRight(b, " \t"); len(b) == 0 {
			p.pending = p.pending[:0]
			return nil
		}
		p.between(b, n)
	}
	if p.lacks != nil {
		return p.lacks
	}
	return nil
}

// headOf reports whether a line begins a sample in any context.
func (p *perfLines) headOf(b []byte) bool {
	h, ok := parsePerfHead(b)
	return ok && h.sure()
}

// within parses a line after the first one of a sample.
func (p *perfLines) within(b []byte, n int) {
	if len(bytes.TrimSpace(b)) == 0 {
		p.sample(n)
		return
	}
	if !p.skip && p.frame(b, n) {
		return
	}
	if _, _, _, ok := parseAnyFrame(b); ok {
		return
	}
	p.key = [2]uint64{} // the text up to the next empty line contains more than the stack
	if h, ok := parsePerfHead(b); ok && h.sure() {
		p.sample(n)
		p.head(b, n, h)
		return
	}
	switch {
	case p.skip || isRecord(b):
	case isAside(b):
		if file, line, ok := sourceLine(b); ok && len(p.stack) > 0 {
			if f := &p.b.tree.Functions[p.stack[len(p.stack)-1]]; f.File == "" {
				f.File, f.Line = file, line
			}
		}
	default:
		p.wrong.skip(n, "no frame: address, name and (file)")
	}
}

// between parses a line between samples. A line that begins a sample only if a frame follows is
// kept until the next line.
func (p *perfLines) between(b []byte, n int) {
	if h, ok := parsePerfHead(b); ok && h.sure() {
		p.drop(n - 1)
		p.head(b, n, h)
		return
	}
	if len(p.pending) > 0 {
		if _, _, _, ok := parseAnyFrame(b); ok {
			if h, ok := looseHead(p.pending); ok {
				p.head(p.pending, n-1, h)
				p.pending = p.pending[:0]
				p.within(b, n)
				return
			}
		}
	}
	p.drop(n - 1)
	if (!p.found || p.headless) &&
		isPadded(b) { // perf script -F ip,sym prints no line of the sample
		p.headless = true
		p.head(b, n-1, perfHead{period: 1})
		p.within(b, n)
		return
	}
	if isRecord(b) {
		return
	}
	if h, ok := parsePerfHead(b); ok && len(h.event) > 0 && p.standsAlone(&h, b, n) {
		return
	}
	p.pending = append(p.pending[:0], b...)
}

// standsAlone parses a sample of one line that has an event and a frame after it, and no time.
func (p *perfLines) standsAlone(h *perfHead, b []byte, n int) bool {
	if _, ok := frameIn(h.rest); !ok {
		return false
	}
	p.head(b, n, *h)
	return true
}

// drop skips the line that was kept for a frame.
func (p *perfLines) drop(n int) {
	if len(p.pending) > 0 {
		p.wrong.skip(n, "neither the line of a sample nor a frame: command, number, time, event")
		p.pending = p.pending[:0]
	}
}

// parseCount parses digits; it returns 0 for other text.
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

// head begins a sample.
func (p *perfLines) head(b []byte, n int, h perfHead) {
	p.inside, p.firstFrame = true, n+1
	p.found, p.skip = true, false
	if len(h.event) > 0 && !p.wanted(h.event) {
		p.skip = true
		if len(p.others) < 100 {
			p.others[string(cutModifiers(h.event))]++
		}
		return
	}
	p.rootsOf(&h, n)
	p.java = bytes.HasPrefix(h.command, []byte("java"))
	p.period = h.period
	p.when(&h)
	if f, ok := frameIn(h.rest); ok { // the only frame of the sample
		p.frame(f, n)
		p.sample(n)
	}
}

// when sets the time and the thread of a sample.
func (p *perfLines) when(h *perfHead) {
	if p.timer == nil {
		return
	}
	p.time = math.NaN()
	if seconds, err := strconv.ParseFloat(string(h.time), 64); err == nil {
		p.time = seconds * 1e9
	}
	p.text = append(append(append(p.text[:0], h.command...), ' '), h.tid...)
	if n, ok := p.timer.threads[string(p.text)]; ok {
		p.thread = n
		return
	}
	p.thread = p.timer.thread(string(p.text), p.text)
}

// counted adds the current sample to a stack.
func (p *perfLines) counted(stack int32) {
	p.s.add(stack, p.period)
	p.samples++
	p.timer.add(Moment{Thread: p.thread, Node: stack, Kept: -1, At: p.time, Amount: p.period})
}

// rootsOf sets the outermost frames of a sample.
func (p *perfLines) rootsOf(h *perfHead, n int) {
	if len(p.o.By) > 0 {
		lacks := ""
		if p.process, lacks = p.perfRoots(h); lacks != "" && p.lacks == nil {
			p.lacks = &ParseError{Line: n, What: "perf script: the sample has no field " + lacks +
				": perf script -F +" + lacks + " prints it"}
		}
		return
	}
	p.process = append(p.process[:0], h.command...)
	replaced(p.process, ' ', '_')
	switch {
	case p.o.TID:
		p.process = append(append(append(append(p.process, '-'), h.pid...), '/'), h.tid...)
	case p.o.PID:
		p.process = append(append(p.process, '-'), h.pid...)
	case len(p.process) == 0:
		p.process = append(p.process, "[no command]"...)
	}
	p.process = append(replaced(p.process, ';', ':'), 0)
}

// wanted reports whether samples of an event are read. The first sample chooses the event. On CPUs
// of several kinds (cpu_core, cpu_atom) perf counts an event once per kind: these are added.
func (p *perfLines) wanted(event []byte) bool {
	bare := cutModifiers(event)
	name, hybrid := hybridEvent(event)
	if len(p.event) == 0 {
		p.event = slices.Clone(bare)
		if hybrid {
			p.event = slices.Clone(name)
		}
	}
	if bytes.Equal(event, p.event) || bytes.Equal(bare, p.event) {
		return true
	}
	if hybrid && bytes.Equal(name, p.event) {
		if len(p.kinds) < 100 {
			p.kinds[string(event)]++
		}
		return true
	}
	return false
}

// block consumes the stack of the current sample if it is cached and complete. It returns the
// number of bytes and lines, or moreBytes.
func (p *perfLines) block(b []byte, n int) (bytesTaken, lines int) {
	if !p.inside || len(p.stack) > 0 || p.firstFrame != n {
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
		return 0, 0
	}
	// The process is not part of the block: its hash is mixed in.
	for i, seed := range p.seeds {
		p.key[i] = maphash.Bytes(seed, b[:end]) ^ maphash.Bytes(seed, p.process)*0x9e3779b97f4a7c15
	}
	e := findStack(p.known.all, &p.key)
	if e.key != p.key || e.lines == 0 {
		return 0, 0
	}
	p.counted(e.stack)
	p.inside, p.key = false, [2]uint64{}
	return end + 2, int(e.lines)
}

// frame parses a frame. It reports false when the line is none.
func (p *perfLines) frame(b []byte, n int) bool {
	key := b
	if !p.o.Addresses { // the address is not needed
		at := 0
		for at < len(b) && (b[at] == ' ' || b[at] == '\t') {
			at++
		}
		for at < len(b) && b[at] != ' ' && b[at] != '\t' {
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
		if p.missedLines++; p.missedLines > missesPerLine*len(p.cache.all) &&
			len(p.cache.all) < maxLines {
			p.missedLines = 0
			p.cache.grow(func(all []perfLine, e *perfLine) {
				if e.is != 0 {
					all[e.hash&uint64(len(all)-1)] = *e
				}
			})
			e = &p.cache.all[hash&uint64(len(p.cache.all)-1)]
		}
		first := len(p.stack)
		var ok bool
		if p.stack, ok = p.functions(p.stack, b); !ok {
			return false
		}
		e.hash = hash
		if len(p.stack) == first+1 {
			e.is = int32(p.stack[first])
		} else if len(p.several) < maxLines {
			p.several = append(p.several, slices.Clone(p.stack[first:]))
			e.is = -int32(len(p.several))
		} else {
			e.is = 0
		}
		return true
	}
	if e.is > 0 {
		p.stack = append(p.stack, uint32(e.is))
		return true
	}
	p.stack = append(p.stack, p.several[-e.is-1]...)
	return true
}

// sample adds the current stack.
func (p *perfLines) sample(n int) {
	if p.inside && !p.skip {
		p.framed = p.framed || len(p.stack) > 0
		for name := range bytes.SplitSeq(p.process[:max(0, len(p.process)-1)], []byte{0}) {
			p.stack = append(p.stack, p.b.Function(name, nil, Process))
		}
		if len(p.stack) > MaxDepth {
			p.stack = p.stack[len(p.stack)-MaxDepth:]
			p.s.cut++
		}
		slices.Reverse(p.stack)
		stack := p.s.stack(p.stack)
		p.counted(stack)
		if p.key != [2]uint64{} {
			if p.missedStacks++; p.missedStacks > len(p.known.all)/2 &&
				len(p.known.all) < maxStacks {
				p.missedStacks = 0
				p.known.grow(func(all []perfStack, e *perfStack) {
					if e.lines != 0 {
						*findStack(all, &e.key) = *e
					}
				})
			}
			e := findStack(p.known.all, &p.key)
			*e = perfStack{p.key, stack, int32(n - p.firstFrame + 1)}
		}
	}
	p.stack, p.inside, p.skip, p.key = p.stack[:0], false, false, [2]uint64{}
}

// close frees the caches.
func (p *perfLines) close() {
	p.cache.close()
	p.known.close()
	p.several = nil
}

func (p *perfLines) end(n int) (*Tree, error) {
	p.sample(n)
	p.drop(n)
	p.close()
	if p.timer != nil {
		p.s.nodes = make([]int32, p.s.count)
	}
	t := p.s.tree(p.b, p.o.Least)
	t.Times = p.timer.timeline(p.s.nodes)
	t = p.leaders.rename(t, p.o.PID)
	t.Samples = float64(p.samples)
	if t.Sum() != t.Samples {
		t.Unit = eventUnit(string(p.event))
	}
	if len(p.others) > 0 {
		t.note(othersNote(string(p.event), p.others))
	}
	if len(p.kinds) > 1 {
		kinds := strings.Join(slices.Sorted(maps.Keys(p.kinds)), " and ")
		t.note("CPUs of several kinds: samples are added up of " + kinds)
	}
	if p.found && !p.framed && t.Sum() > 0 {
		t.note("no sample has a stack: these are counts by process; perf record -g records stacks")
	}
	if !p.found {
		return nil, &ParseError{Line: max(1, p.wrong.first), What: "no samples in it"}
	}
	if t.Sum() == 0 && p.o.Event != "" && len(p.others) > 0 {
		return nil, &ParseError{Line: 1,
			What: "no samples of event " + p.o.Event + " in it; " + othersNote("", p.others)}
	}
	return p.wrong.report(t, n)
}
