package symbol

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"time"

	"golang.org/x/sys/unix"
)

// A compiler puts the code of small functions into their callers. Where a file has debug information (DWARF 2 to 5) it tells which addresses
// are of such a function: a tree of inlined calls below each function. It is read when somebody asks for it: which unit of the file an address is in from the
// units' heads, then the functions of that unit, then the tree of that function alone.

// Limits of debug information, against files that have very much of it or are not what they say.
const (
	mostDWARF  = 64 << 20        // bytes of it, unpacked, of a file
	mostUnits  = 1 << 16         // of a file
	mostCalls  = 1 << 18         // inlined calls that are kept of a file
	mostInline = 64              // how deep calls are inlined into one another
	inlineTime = 2 * time.Second // what all reading may take, begun before then
)

// inlines is what is known of the inlined calls of a file. A nil one knows of none.
type inlines struct {
	memory []byte // what data reads, outside of the heap: it is large, and gone after a moment
	data   *dwarf.Data
	spans  []span // of units, by address
	units  map[int]*unitOf
	names  map[dwarf.Offset]string
	calls  int // that are kept
	first  []dwarf.Offset
}

// A span is addresses of a unit or a function, and which one.
type span struct {
	low, high uint64
	of        int
}

// A unitOf is the functions of a unit.
type unitOf struct {
	spans []span
	funcs []dwarf.Offset
	trees map[int][]inlinedCall
}

// An inlinedCall is one function's code within another one's. Callers stand before what they call.
type inlinedCall struct {
	ranges [][2]uint64
	origin dwarf.Offset
	depth  int
}

var errMuchDebug = errors.New("more debug information than is looked at")

// close gives the memory back. A nil one has none.
func (in *inlines) close() {
	if in == nil {
		return
	}
	unix.Munmap(in.memory) //nolint:errcheck // it is ours
	in.data, in.memory = nil, nil
}

// readInlines reads where the units of a file are. No debug information is nil; else it is to be closed.
func readInlines(r io.ReaderAt, room int) (_ *inlines, failed error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	sections := map[string]*elf.Section{}
	total := uint64(0)
	for _, s := range f.Sections {
		switch s.Name {
		case ".debug_abbrev", ".debug_info", ".debug_str", ".debug_ranges", ".debug_addr", ".debug_line_str", ".debug_str_offsets", ".debug_rnglists":
			if s.Type == elf.SHT_NOBITS {
				continue
			}
			if s.Size > uint64(max(room, 0)) { // unpacked
				return nil, errMuchDebug
			}
			sections[s.Name] = s
			total += s.Size
		}
	}
	if sections[".debug_info"] == nil || sections[".debug_abbrev"] == nil {
		return nil, nil
	}
	if sections[".debug_info"].Size == 0 {
		return nil, nil
	}
	if total > uint64(max(room, 0)) {
		return nil, errMuchDebug
	}
	in := &inlines{units: map[int]*unitOf{}, names: map[dwarf.Offset]string{}}
	if in.memory, err = unix.Mmap(-1, 0, int(total), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
		return nil, fmt.Errorf("make room for debug information: %w", err)
	}
	defer func() {
		if failed != nil {
			in.close()
		}
	}()
	text, rest := map[string][]byte{}, in.memory
	for name, s := range sections {
		b := rest[:s.Size:s.Size]
		rest = rest[s.Size:]
		if _, err := io.ReadFull(s.Open(), b); err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		text[name] = b
	}
	if in.data, err = dwarf.New(text[".debug_abbrev"], nil, nil, text[".debug_info"], nil, nil, text[".debug_ranges"], text[".debug_str"]); err != nil {
		return nil, err
	}
	for _, name := range []string{".debug_addr", ".debug_line_str", ".debug_str_offsets", ".debug_rnglists"} {
		if b := text[name]; b != nil {
			if err := in.data.AddSection(name, b); err != nil {
				return nil, err
			}
		}
	}
	reader := in.data.Reader()
	for _, at := range unitsOf(text[".debug_info"], f.ByteOrder) {
		reader.Seek(at)
		e, err := reader.Next()
		if err != nil || e == nil || e.Tag != dwarf.TagCompileUnit {
			continue
		}
		ranges, err := in.data.Ranges(e)
		if err != nil {
			continue
		}
		for _, r := range ranges {
			in.spans = append(in.spans, span{r[0], r[1], len(in.first)})
		}
		in.first = append(in.first, at)
	}
	order(in.spans)
	return in, nil
}

// unitsOf gives where the first entry of each unit stands (DWARF 5, 7.5.1): behind the head of the unit, which begins with its length.
func unitsOf(info []byte, bo binary.ByteOrder) (out []dwarf.Offset) {
	for at := uint64(0); len(out) < mostUnits && at+12 <= uint64(len(info)); {
		head := info[at:]
		length, wide := uint64(bo.Uint32(head)), uint64(4) // of an offset
		begin := uint64(4)
		if length == 0xffffffff {
			if len(head) < 24 {
				break
			}
			length, wide, begin = bo.Uint64(head[4:]), 8, 12
		}
		if length < 8 || length > uint64(len(info))-at-begin {
			break
		}
		first := begin + 2 + wide + 1 // version, abbreviations, size of an address
		if bo.Uint16(head[begin:]) >= 5 {
			first++
			switch head[begin+2] {
			case 4, 5: // skeleton, split: an id
				first += 8
			case 2, 6: // types
				first += 8 + wide
			}
		}
		out = append(out, dwarf.Offset(at+first))
		at += begin + length
	}
	return out
}

func order(s []span) {
	slices.SortFunc(s, func(a, b span) int {
		if a.low != b.low {
			if a.low < b.low {
				return -1
			}
			return 1
		}
		return a.of - b.of
	})
}

// lookup gives which of those in order an address is in.
func lookup(s []span, addr uint64) (of int, ok bool) {
	const inner = 8 // how many that begin later and end before are looked past
	i := sort.Search(len(s), func(i int) bool { return s[i].low > addr })
	for n := 0; i > 0 && n < inner; n++ {
		if i--; addr < s[i].high {
			return s[i].of, true
		}
	}
	return 0, false
}

// at gives the names of the functions whose code is at an address because it was put there, the innermost first; none: the code is the function's own, or it
// is not known.
func (in *inlines) at(addr uint64) (names []string) {
	if in == nil {
		return nil
	}
	u, ok := lookup(in.spans, addr)
	if !ok {
		return nil
	}
	unit := in.units[u]
	if unit == nil {
		unit = in.functions(in.first[u])
		in.units[u] = unit
	}
	f, ok := lookup(unit.spans, addr)
	if !ok {
		return nil
	}
	tree, ok := unit.trees[f]
	if !ok {
		if in.calls > mostCalls {
			for _, u := range in.units {
				clear(u.trees)
			}
			in.calls = 0
		}
		tree = in.tree(unit.funcs[f])
		in.calls += len(tree)
		unit.trees[f] = tree
	}
	depth := 0
	for _, c := range tree {
		if c.depth != depth+1 || !within(c.ranges, addr) {
			continue // of another branch
		}
		depth++
		if name := in.name(c.origin); name != "" {
			names = append(names, name)
		}
	}
	slices.Reverse(names)
	return names
}

func within(ranges [][2]uint64, addr uint64) bool {
	return slices.ContainsFunc(ranges, func(r [2]uint64) bool { return addr >= r[0] && addr < r[1] })
}

// functions reads which functions a unit has code of.
func (in *inlines) functions(first dwarf.Offset) *unitOf {
	out := &unitOf{trees: map[int][]inlinedCall{}}
	r := in.data.Reader()
	r.Seek(first)
	for depth := 0; ; {
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		if e.Tag == 0 {
			if depth--; depth <= 0 {
				break
			}
			continue
		}
		switch e.Tag {
		case dwarf.TagSubprogram:
			ranges, err := in.data.Ranges(e)
			if err == nil && len(ranges) > 0 && e.Children {
				for _, r := range ranges {
					out.spans = append(out.spans, span{r[0], r[1], len(out.funcs)})
				}
				out.funcs = append(out.funcs, e.Offset)
			}
			r.SkipChildren()
		case dwarf.TagCompileUnit, dwarf.TagNamespace, dwarf.TagModule, dwarf.TagStructType, dwarf.TagClassType:
			if e.Children {
				depth++
			}
		default:
			r.SkipChildren()
		}
		if depth == 0 {
			break
		}
	}
	order(out.spans)
	return out
}

// tree reads the inlined calls of a function.
func (in *inlines) tree(function dwarf.Offset) (out []inlinedCall) {
	r := in.data.Reader()
	r.Seek(function)
	if e, err := r.Next(); err != nil || e == nil || !e.Children {
		return nil
	}
	calls := []int{0} // how many calls are around the entries of each depth
	for len(calls) > 0 && len(out) < mostCalls {
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		if e.Tag == 0 {
			calls = calls[:len(calls)-1]
			continue
		}
		around := calls[len(calls)-1]
		switch e.Tag {
		case dwarf.TagInlinedSubroutine:
			origin, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
			ranges, err := in.data.Ranges(e)
			if !ok || err != nil || len(ranges) == 0 || around >= mostInline {
				r.SkipChildren()
				continue
			}
			out = append(out, inlinedCall{ranges, origin, around + 1})
			if e.Children {
				calls = append(calls, around+1)
			}
		case dwarf.TagLexDwarfBlock:
			if e.Children {
				calls = append(calls, around)
			}
		default:
			r.SkipChildren()
		}
	}
	return out
}

// name gives the name of an abstract function: as the linker would have it, made readable, else as it is written.
func (in *inlines) name(origin dwarf.Offset) string {
	if s, ok := in.names[origin]; ok {
		return s
	}
	name := ""
	r := in.data.Reader()
	for at, n := origin, 0; n < 8; n++ { // an instance names an abstract one, which may name its declaration
		r.Seek(at)
		e, err := r.Next()
		if err != nil || e == nil {
			break
		}
		if s, ok := e.Val(dwarf.AttrLinkageName).(string); ok && s != "" {
			name = s
			break
		}
		if s, ok := e.Val(dwarf.AttrName).(string); ok && name == "" {
			name = s
		}
		next, ok := e.Val(dwarf.AttrSpecification).(dwarf.Offset)
		if !ok {
			next, ok = e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		}
		if !ok {
			break
		}
		at = next
	}
	name = Readable(name)
	in.names[origin] = name
	return name
}

// Inlined gives for each spot which functions the compiler put there, innermost first, without the one that has them; and what may mislead. It reads each
// file's debug information in turn, as Resolve its symbols, and for so long in all that nobody waits for it much.
func (ps *Processes) Inlined(spots []Spot) (names [][]string, notes []string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	names = make([][]string, len(spots))
	of := map[*object][]int{}
	for i, s := range spots {
		if s.file != nil {
			of[s.file] = append(of[s.file], i)
		}
	}
	until := time.Now().Add(inlineTime)
	for o, which := range of {
		l := ps.later[o]
		if l == nil {
			continue
		}
		late := time.Now().After(until)
		if !late {
			in, err := ps.inlinesLater(l, o)
			if errors.Is(err, errMuchDebug) {
				notes = append(notes, fmt.Sprintf("inlined functions of %s are not told: it has more than %d MB of debug information", clean(l.mapping.Path), mostDWARF>>20))
			}
			for n, i := range which {
				if late = n%16 == 0 && time.Now().After(until); late {
					break
				}
				names[i] = in.at(spots[i].addr)
			}
			in.close()
		}
		if late {
			notes = append(notes, fmt.Sprintf("inlined functions of %s are not all told: reading debug information took %v", clean(l.mapping.Path), inlineTime))
		}
	}
	slices.Sort(notes)
	return names, notes
}

// inlinesLater reads where the units of a file are, or of what a distribution keeps beside it.
func (ps *Processes) inlinesLater(l *laterFile, o *object) (*inlines, error) {
	f, d := l.file, l.debug
	if f == nil {
		var err error
		if f, _, err = ps.open(l.process, &l.mapping); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	in, err := readInlines(f, mostDWARF)
	if in != nil || err != nil {
		return in, err
	}
	if d == nil {
		if d, _ = ps.openDebug(l.process, o.buildID); d == nil {
			return nil, nil
		}
		defer d.Close()
	}
	return readInlines(d, mostDWARF)
}
