package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"culprit/profile/perfdata"
)

// PerfData is the file of perf record.
const PerfData Format = "perf.data"

// A Namer names addresses in profiles that have no names, with the files of this machine.
type Namer interface {
	// Functions returns the names of the functions at offsets of a file, for each offset the
	// innermost first; nil: there is no symbol. buildID is in hexadecimal; "" is unknown. The error
	// says why the file here cannot name anything.
	Functions(file, buildID string, offsets []uint64) ([][]string, error)
	// KernelFunctions returns the names of kernel addresses and the modules that contain them; "":
	// unknown. release is as uname -r prints it, text was the address of _text when they were
	// recorded.
	KernelFunctions(buildID, release string, text uint64, addrs []uint64) (
		names, modules []string, err error)
	// GeneratedFunctions returns the names of the functions at addresses of a process whose
	// just-in-time compiler wrote the file (jit-PID.dump); "": unknown. inode is that of the
	// recorded file; 0: unknown. The error says why the file here cannot name anything.
	GeneratedFunctions(file string, inode uint64, addrs []uint64) ([]string, error)
}

// perfData builds the tree of a perf.data file. Addresses are named at the end, when the file has
// listed the build IDs and the names of its events.
type perfData struct {
	o       Options
	spots   []spot
	known   map[spot]uint32
	events  map[int]*perfDataEvent
	order   []int // of events, as first seen
	stack   []uint32
	stacked bool     // a sample has more than one frame
	reasons []string // why files have no names
}

// perfDataEvent has the stacks of one event, of indexes into spots.
type perfDataEvent struct {
	stacks  stackSet
	samples int
	timer   *timer
}

// A spot is an address in a file, or a process.
type spot struct {
	process string // "": not a process
	of      *perfdata.Binary
	symbol  string
	at      uint64 // offset in the file; of the kernel and of unknown memory the address
	kernel  bool
	dump    *perfdata.Binary // of generated code, which is at the address; nil: it is none
}

// mostDataEvents is how many events of a file are read.
const mostDataEvents = 64

// readPerfData reads the file of perf record.
func readPerfData(in io.Reader, o Options) (*Tree, error) {
	p := &perfData{o: o, known: map[spot]uint32{}, events: map[int]*perfDataEvent{}}
	f, err := perfdata.Read(in, o.meter.add, p.sample)
	var wrong *perfdata.Error
	if errors.As(err, &wrong) {
		return nil, &ParseError{Byte: wrong.Byte, What: "perf.data: " + wrong.What}
	}
	if err != nil {
		return nil, err
	}
	return p.tree(f)
}

// sample adds a sample.
func (p *perfData) sample(s *perfdata.Sample) error {
	e := p.events[s.Event]
	if e == nil {
		if len(p.order) == mostDataEvents {
			return nil
		}
		e = &perfDataEvent{stacks: stackSet{meter: p.o.meter}, timer: p.o.timer(true)}
		p.events[s.Event] = e
		p.order = append(p.order, s.Event)
	}
	p.stack = p.stack[:0]
	for _, name := range p.roots(s) {
		p.stack = append(p.stack, p.spot(spot{process: name}))
	}
	for _, f := range slices.Backward(s.Frames) {
		p.stack = append(p.stack, p.spot(spotOf(f, s.Dump)))
	}
	p.stacked = p.stacked || len(s.Frames) > 1
	stack := e.stacks.stack(p.stack)
	e.stacks.add(stack, float64(s.Period))
	if e.timer != nil && s.Time > 0 {
		name := s.Command + " " + strconv.Itoa(s.TID)
		e.timer.add(Moment{
			Thread: e.timer.thread(name, []byte(name)), Node: stack, Kept: -1,
			At: float64(s.Time), Amount: float64(s.Period),
		})
	}
	e.samples++
	return nil
}

// roots returns the names of the outermost frames of a sample.
func (p *perfData) roots(s *perfdata.Sample) []string {
	if len(p.o.By) > 0 {
		return p.o.roots().Frames(Thread{
			Process: commandFrame(s.Process), Name: commandFrame(s.Command), PID: s.PID, TID: s.TID,
		})
	}
	name := cmp.Or(commandFrame(s.Command), "[no command]")
	switch {
	case p.o.TID:
		name += "-" + strconv.Itoa(s.PID) + "/" + strconv.Itoa(s.TID)
	case p.o.PID:
		name += "-" + strconv.Itoa(s.PID)
	}
	return []string{name}
}

// commandFrame returns a command as a frame.
func commandFrame(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, " ", "_"), ";", ":")
}

// spotOf returns the spot of a frame in a process that has mapped a dump; nil: it has none.
func spotOf(f perfdata.Frame, dump *perfdata.Binary) spot {
	at := f.Addr
	if f.Return && at > 0 {
		at--
	}
	if dump != nil && !f.Kernel && (f.Map == nil || holdsGenerated(f.Map.Name)) {
		return spot{at: at, dump: dump}
	}
	if f.Map == nil {
		return spot{at: at, kernel: f.Kernel}
	}
	s := spot{of: f.Map.Binary, symbol: f.Map.Symbol, at: at, kernel: f.Kernel}
	if !f.Kernel {
		s.at = at - f.Map.Start + f.Map.Offset
	}
	return s
}

// holdsGenerated reports whether a mapping of this name can have code from no file.
func holdsGenerated(name string) bool {
	for _, prefix := range []string{
		"//anon", "[anon", "anon_inode:", "/memfd:", "/dev/", "[heap]",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == ""
}

// spot returns the index of a spot.
func (p *perfData) spot(s spot) uint32 {
	n, ok := p.known[s]
	if !ok {
		p.o.meter.add(200)
		n = uint32(len(p.spots))
		p.known[s] = n
		p.spots = append(p.spots, s)
	}
	return n
}

// tree returns the tree of the requested event.
func (p *perfData) tree(f *perfdata.File) (*Tree, error) {
	if len(p.order) == 0 {
		what := "perf.data: no samples in it"
		if f.Cut {
			what += ": it is cut off, since perf record did not end"
		}
		return nil, &ParseError{What: what}
	}
	chosen, others, err := p.choose(f)
	if err != nil {
		return nil, err
	}
	event, name := p.events[chosen], eventName(f, chosen)
	b := p.o.builder()
	functions := p.name(b, f)
	var stack []uint32
	nodes := make([]int32, event.stacks.count)
	for k := range int32(event.stacks.count) {
		stack = stack[:0]
		for _, s := range event.stacks.functions(k) {
			stack = append(stack, functions[s]...)
		}
		nodes[k] = b.Stack(stack, event.stacks.at(k).amount)
	}
	b.cut += event.stacks.cut
	t := b.Tree()
	t.Times = event.timer.timeline(nodes)
	t.Samples = float64(event.samples)
	if unit := eventUnit(name); t.Sum() != t.Samples || !isTimeUnit(unit) {
		t.Unit = unit
	}
	p.notes(t, f, name, others)
	return t, nil
}

// notes adds what may mislead.
func (p *perfData) notes(t *Tree, f *perfdata.File, event string, others map[string]int) {
	if len(others) > 0 {
		t.note(othersNote(event, others))
	}
	if f.Cut {
		t.note("the file is cut off: perf record was killed, and what it wrote is counted")
	}
	if f.Lost > 0 {
		t.note(fmt.Sprintf("the kernel dropped %d samples while they were recorded", f.Lost))
	}
	switch {
	case f.Unwalked:
		t.note("user stacks are copies that only perf script walks: here they have the " +
			"innermost function. perf script -i FILE | culprit flame - has the callers")
	case !p.stacked:
		t.note("no sample has a stack: these are counts by function; " +
			"perf record -g records stacks")
	}
	if p.o.Names == nil {
		t.note("functions have no names here: culprit flame FILE on the machine where it was " +
			"recorded names them")
	}
	const most = 5
	for i, reason := range p.reasons {
		if i == most {
			t.note(fmt.Sprintf("%d more files have no names for such reasons", len(p.reasons)-most))
			break
		}
		t.note(reason)
	}
}

// choose returns the event that is read, and the number of samples of the others.
func (p *perfData) choose(f *perfdata.File) (chosen int, others map[string]int, err error) {
	chosen, others = -1, map[string]int{}
	slices.Sort(p.order) // the first event of perf record's command line is the default
	for _, e := range p.order {
		name := eventName(f, e)
		bare := string(cutModifiers([]byte(name)))
		if chosen < 0 && (p.o.Event == "" || p.o.Event == name || p.o.Event == bare) {
			chosen = e
			continue
		}
		others[bare] += p.events[e].samples
	}
	if chosen < 0 {
		return 0, nil, &ParseError{
			What: "no samples of event " + p.o.Event + " in it; " + othersNote("", others),
		}
	}
	return chosen, others, nil
}

func eventName(f *perfdata.File, event int) string {
	return cmp.Or(f.Events[event].Name, "event "+strconv.Itoa(event+1))
}

// name returns the functions of each spot, outermost first.
func (p *perfData) name(b *Builder, f *perfdata.File) [][]uint32 {
	functions := make([][]uint32, len(p.spots))
	p.o.meter.add(32 * len(p.spots))
	files := map[*perfdata.Binary][]int{}
	var order []*perfdata.Binary
	var kernel []int
	dumps := map[*perfdata.Binary][]int{}
	for i, s := range p.spots {
		switch {
		case s.process != "":
			functions[i] = []uint32{b.Function([]byte(s.process), nil, Process)}
		case s.symbol != "":
			functions[i] = []uint32{b.Function(frameName(s.symbol), []byte("bpf"), Kernel)}
		case s.kernel:
			kernel = append(kernel, i)
		case s.dump != nil:
			dumps[s.dump] = append(dumps[s.dump], i)
		case s.of != nil:
			if files[s.of] == nil {
				order = append(order, s.of)
			}
			files[s.of] = append(files[s.of], i)
		}
	}
	p.nameKernel(b, f, kernel, functions)
	for _, of := range order {
		p.nameFile(b, of, files[of], functions)
	}
	for _, dump := range slices.SortedFunc(maps.Keys(dumps), func(a, b *perfdata.Binary) int {
		return cmp.Compare(a.Name, b.Name)
	}) {
		p.nameGenerated(b, dump, dumps[dump], functions)
	}
	for i := range functions {
		if functions[i] == nil {
			functions[i] = []uint32{p.unnamedSpot(b, &p.spots[i])}
		}
	}
	return functions
}

// nameKernel names spots of the kernel.
func (p *perfData) nameKernel(b *Builder, f *perfdata.File, which []int, into [][]uint32) {
	if p.o.Names == nil || len(which) == 0 {
		return
	}
	addrs := make([]uint64, len(which))
	for n, i := range which {
		addrs[n] = p.spots[i].at
	}
	names, modules, err := p.o.Names.KernelFunctions(
		f.KernelBuildID, f.KernelRelease, f.KernelText, addrs,
	)
	if err != nil {
		p.reasons = append(p.reasons, "functions of the kernel have no names: "+clean(err.Error()))
		return
	}
	for n, i := range which {
		if names[n] != "" {
			name := frameName(names[n])
			if p.o.Marks {
				name = append(name, "_[k]"...)
			}
			into[i] = []uint32{b.Function(name, []byte(modules[n]), Kernel)}
		}
	}
}

// nameFile names the spots of one file.
func (p *perfData) nameFile(b *Builder, of *perfdata.Binary, which []int, into [][]uint32) {
	if p.o.Names == nil || strings.HasPrefix(of.Name, "[") || strings.HasPrefix(of.Name, "//") {
		return
	}
	offsets := make([]uint64, len(which))
	for n, i := range which {
		offsets[n] = p.spots[i].at
	}
	names, err := p.o.Names.Functions(of.Name, of.BuildID, offsets)
	if err != nil {
		p.reasons = append(p.reasons, fmt.Sprintf("functions of %s have no names: %s",
			clean(shortened(of.Name, 200)), clean(err.Error())))
		return
	}
	module := []byte(path.Base(of.Name))
	for n, i := range which {
		for k, name := range slices.Backward(names[n]) {
			text, kind := frameName(name), Code
			if k < len(names[n])-1 { // the last one contains the others
				text, kind = append(text, "_[i]"...), Inlined
			}
			into[i] = append(into[i], b.Function(text, module, kind))
		}
	}
}

// nameGenerated names the spots in the generated code that a dump describes.
func (p *perfData) nameGenerated(b *Builder, of *perfdata.Binary, which []int, into [][]uint32) {
	if p.o.Names == nil {
		return
	}
	addrs := make([]uint64, len(which))
	for n, i := range which {
		addrs[n] = p.spots[i].at
	}
	names, err := p.o.Names.GeneratedFunctions(of.Name, of.Inode, addrs)
	if err != nil {
		p.reasons = append(p.reasons, fmt.Sprintf("generated code has no names from %s: %s",
			clean(shortened(of.Name, 200)), clean(err.Error())))
		return
	}
	for n, i := range which {
		if names[n] == "" {
			continue
		}
		text := replaced([]byte(names[n][:min(len(names[n]), math.MaxInt16)]), ';', ':')
		if p.o.Marks {
			text = append(text, "_[j]"...)
		}
		into[i] = []uint32{b.Function(text, nil, JIT)}
	}
}

// unnamedSpot returns the function of a spot without a name: its file, and its address if that is
// requested.
func (p *perfData) unnamedSpot(b *Builder, s *spot) uint32 {
	file, kind := "unknown", Code
	if s.of != nil {
		file = path.Base(strings.Trim(s.of.Name, "[]"))
	}
	if s.kernel {
		kind = Kernel
		file = cmp.Or(strings.TrimPrefix(file, "unknown"), "kernel")
	}
	text := "[" + file
	if p.o.Addresses {
		text += fmt.Sprintf(" <%x>", s.at)
	}
	module := []byte(nil)
	if s.of != nil {
		module = []byte(file)
	}
	return b.Function(frameName(text+"]"), module, kind)
}

// frameName returns the bytes of a function's name as a frame.
func frameName(name string) []byte {
	text := withoutArguments(withoutRust([]byte(name[:min(len(name), math.MaxInt16)])))
	return replaced(slices.Clone(text), ';', ':')
}
