package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
)

// bpftraceLines reads maps that bpftrace prints, keyed by kstack or ustack and possibly other keys:
//
//	@[
//	    native_safe_halt+14
//	    cpu_startup_entry+25
//	, swapper]: 42
//
// Keys that are not stacks name the process: they become the outermost frame.
type bpftraceLines struct {
	b       *Builder
	o       Options
	stack   []uint32 // innermost first
	inside  bool
	started int
	wrong   skipped
	found   bool

	name    string             // of the map whose entry is being read
	maps    map[string]bool    // maps with stacks
	numbers map[string]float64 // counts of entries without a stack, by map and key; nil: too many
	entries map[string]int     // number of entries without a stack, by map
	first   int                // line of the first entry without a stack
}

// maxNumbers is the number of entries without a stack that are kept.
const maxNumbers = 10_000

// number keeps an entry without a stack. It counts when other entries of its map have stacks.
func (p *bpftraceLines) number(name string, keys []byte, count float64, n int) {
	if len(p.entries) < 100 {
		p.entries[name]++
	}
	if p.first == 0 {
		p.first = n
	}
	if len(p.numbers) < maxNumbers {
		p.numbers[name+"\x00"+string(keys)] += count
	}
}

// leftovers adds the entries without a stack of maps with stacks. It reports the others: scripts
// also keep start times and sums.
func (p *bpftraceLines) leftovers() {
	for _, key := range slices.Sorted(maps.Keys(p.numbers)) {
		name, keys, _ := strings.Cut(key, "\x00")
		if p.maps[name] && strings.HasPrefix(strings.TrimSpace(keys), ",") { // its stack was empty
			p.key([]byte(keys))
			p.done(p.numbers[key])
			p.entries[name]--
		}
	}
	var left []string
	total := 0
	for _, name := range slices.Sorted(maps.Keys(p.entries)) {
		if n := p.entries[name]; n > 0 {
			left, total = append(left, "@"+clean(shortened(name, 40))), total+n
		}
	}
	if len(left) > 8 {
		left = append(left[:8], "and others")
	}
	if total > 0 && p.found {
		count := plural(total, "entry has no stack and is", "entries have no stacks and are")
		p.b.tree.note(count + " omitted: maps " + strings.Join(left, ", "))
	}
	if len(p.maps) > 1 {
		all := strings.Join(slices.Sorted(maps.Keys(p.maps)), ", @")
		p.b.tree.note("maps are added up: @" + clean(shortened(all, 200)))
	}
}

// bpftraceJSON reads the output of bpftrace -f json: one JSON value per line. Those of type map
// contain counts by key:
//
//	{"type": "map", "data": {"@": {"\n    native_safe_halt+14\n    do_idle+25\n,swapper": 42}}}
type bpftraceJSON struct {
	bpftraceLines
}

func newBPFTraceJSON(o Options) *bpftraceJSON { return &bpftraceJSON{*newBPFTrace(o)} }

func (p *bpftraceJSON) line(b []byte, n int) error {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil
	}
	var l struct {
		Type string                     `json:"type"`
		Data map[string]json.RawMessage `json:"data"`
	}
	var kind *json.UnmarshalTypeError
	if err := p.b.meter.unmarshal(b, &l); err != nil {
		if !errors.As(err, &kind) { // the data of a printf are text
			p.wrong.skip(n, "JSON: "+err.Error())
		}
		return nil
	}
	if l.Type != "map" {
		return nil
	}
	for name, m := range l.Data {
		name = strings.TrimPrefix(name, "@")
		var counts map[string]float64
		if p.b.meter.unmarshal(m, &counts) != nil {
			continue // a number, or numbers of another kind
		}
		for key, count := range counts {
			if !strings.Contains(key, "\n") {
				p.number(name, []byte(key), count, n)
				continue
			}
			p.maps[name] = true
			for line := range strings.Lines(key) {
				if line[0] == ' ' || line[0] == '\t' {
					p.frame([]byte(line))
				} else {
					p.key(bytes.TrimSpace([]byte(line)))
				}
			}
			if len(p.stack) > 0 {
				p.done(count)
			}
		}
	}
	return nil
}

func newBPFTrace(o Options) *bpftraceLines {
	return &bpftraceLines{b: o.builder(), o: o, maps: map[string]bool{},
		numbers: map[string]float64{}, entries: map[string]int{}}
}

func (p *bpftraceLines) line(b []byte, n int) error {
	if !p.inside {
		if len(b) == 0 || b[0] != '@' {
			return nil // a printf, or Attaching 1 probe...
		}
		open := bytes.IndexByte(b, '[')
		if open < 0 {
			return nil
		}
		rest := b[open+1:]
		if keys, count, ok := cutValue(rest); ok { // no frames
			p.number(string(b[1:open]), keys, count, n)
			return nil
		}
		p.inside, p.started, p.name = true, n, string(b[1:open])
		p.key(rest)
		return nil
	}
	if keys, count, ok := cutValue(b); ok {
		p.key(keys)
		p.done(count)
		if len(p.maps) < 100 {
			p.maps[p.name] = true
		}
		return nil
	}
	if bytes.HasPrefix(b, []byte("@")) && bytes.IndexByte(b, '[') > 0 {
		p.wrong.skip(p.started, "a stack without a count")
		p.stack, p.inside = p.stack[:0], false
		return p.line(b, n)
	}
	p.frame(b)
	return nil
}

// cutValue removes "]: 42" from the end of a line.
func cutValue(b []byte) (rest []byte, count float64, ok bool) {
	i := bytes.LastIndex(b, []byte("]: "))
	if i < 0 {
		return nil, 0, false
	}
	number := bytes.TrimSpace(b[i+3:])
	if !isDigits(number) {
		return nil, 0, false
	}
	return b[:i], parseCount(number), true
}

// key adds keys of a map that are not stacks.
func (p *bpftraceLines) key(b []byte) {
	b = bytes.Trim(b, " \t,")
	if len(b) > 0 {
		p.stack = append(p.stack, p.b.Function(replaced(slices.Clone(b), ';', ':'), nil, Process))
	}
}

func (p *bpftraceLines) frame(b []byte) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || string(b) == "," {
		return
	}
	if _, name, file, ok := parsePerfFrame(b); ok { // stack_mode=perf
		if name = cutPlainOffset(cutOffset(name)); string(name) == "[unknown]" || len(name) == 0 {
			name = append(append([]byte{'['}, baseName(file)...), ']')
		}
		p.stack = append(p.stack,
			p.b.Function(replaced(slices.Clone(name), ';', ':'), baseName(file), kindByFile(file)))
		return
	}
	b = bytes.TrimPrefix(b, []byte(", "))
	if !p.o.Offsets {
		b = cutPlainOffset(b)
	}
	p.stack = append(p.stack, p.b.Function(replaced(slices.Clone(b), ';', ':'), nil, Code))
}

// cutPlainOffset removes +25 from the end of a name.
func cutPlainOffset(b []byte) []byte {
	if i := bytes.LastIndexByte(b, '+'); i > 0 && isDigits(b[i+1:]) {
		return b[:i]
	}
	return b
}

func (p *bpftraceLines) done(count float64) {
	slices.Reverse(p.stack)
	p.b.Stack(p.stack, count)
	p.stack, p.inside, p.found = p.stack[:0], false, true
}

func (p *bpftraceLines) end(lines int) (*Tree, error) {
	if p.inside {
		p.wrong.skip(p.started, "the stack that begins here has no count: the input is cut off")
	}
	p.leftovers()
	t := p.b.Tree()
	if !p.found && p.wrong.lines == 0 {
		return nil, &ParseError{Line: max(1, p.first),
			What: "no map keyed by stacks in it: " +
				"bpftrace prints stacks of @[kstack] = count() and @[ustack] = count()"}
	}
	return p.wrong.report(t, lines)
}
