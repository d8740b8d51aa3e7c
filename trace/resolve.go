package trace

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"
	"culprit/lang/syntax"
	"culprit/symbol"
)

// HasOption reports whether an option was set.
func (s *Session) HasOption(name string) bool {
	value, ok := s.script.Program.Options.All[name]
	switch strings.ToLower(value) {
	case "no", "disable", "disabled", "false", "off", "unset":
		return false
	}
	return ok
}

// number returns an option's number, or otherwise where it has none.
func (s *Session) number(name string, otherwise int) int {
	if n, err := strconv.Atoi(s.script.Program.Options.All[name]); err == nil {
		return n
	}
	return otherwise
}

// style returns how the script wants things printed.
func (s *Session) style() format.Style {
	st := format.Style{
		NoColumns: os.Getenv("_DTRACE_TESTING") != "", Quiet: s.HasOption("quiet"), RawBytes: s.HasOption("rawbytes"), FlowIndent: s.HasOption("flowindent"), SortKey: s.HasOption("aggsortkey"), SortRev: s.HasOption("aggsortrev"),
		SortKeyPos: s.number(
			"aggsortkeypos", 0,
		), SortPos: s.number("aggsortpos", 0), PerCPU: s.HasOption("aggpercpu"), Zoom: s.HasOption("aggzoom"),
		Hist: s.HasOption("agghist"), Pack: s.HasOption("aggpack"), Encoding: s.script.Program.Options.All["encoding"], Zone: time.Local, Group: format.Thousands(numeric()),
	}
	if s.HasOption("stackindent") {
		st.StackIndent, st.Indented = s.number("stackindent", 0), true
	}
	return st
}

// numeric returns the locale in which numbers are written.
func numeric() string { return cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_NUMERIC"), os.Getenv("LANG")) }

// setopt sets an option while the script runs, and prints an error where it can't be set.
func (p *Printer) setopt(r *Record, action check.Action, values []format.Value) error {
	value := cmp.Or(action.Value, "1")
	if len(values) > 0 {
		value = values[0].Text
	}
	if problem := check.OptionProblem(action.Name, value); problem != "" {
		if err := p.Pause(); err != nil {
			return err
		}
		what := fmt.Sprintf("couldn't set option %q to %q: %s", action.Name, value, problem)
		p.Say(
			"%s\n",
			format.LibraryMessage(r.Clause.NumberAt(r.Probe), r.Probe.ID, r.Probe.String(), what),
		)
		return nil
	}
	p.session.script.Program.Options.All[strings.ToLower(action.Name)] = value
	p.style = p.session.style()
	return nil
}

// Key makes an element of a key what is printed.
func (s *Session) Key(raw []byte, f ir.TupleField) format.Value { return s.value(FieldOf(raw, f)) }

// value makes a value of a program what is printed: stacks and addresses get their names.
func (s *Session) value(v Value) format.Value {
	switch t := v.Type.(type) {
	case check.StringType:
		return format.TextOf(string(v.Bytes), s.script.IR.StrMost+1)
	case *check.Int:
		return format.IntOf(v.Int, int(t.Bytes), t.Signed)
	case check.StackType:
		id, most := s.part(uint32(v.Int))
		if s.frames != nil && s.frames.kept {
			return format.IntOf(int64(s.keptFrame(id)), 4, false)
		}
		return s.stack(id).Innermost(most)
	case check.SymbolType:
		return s.symbol(v, t)
	case *check.Pointer:
		return format.IntOf(v.Int, 8, false)
	case *check.Float:
		return format.Value{Kind: format.Floating, Size: int(t.Bytes), Num: uint64(v.Int)}
	}
	if v.Bytes != nil {
		return format.BytesOf(v.Bytes)
	}
	return format.IntOf(v.Int, 8, true)
}

// symbol returns an address its name, as sym(), func(), mod() or their twins of user space print
// it.
func (s *Session) symbol(v Value, t check.SymbolType) format.Value {
	at := s.at(v, t)
	name := at.Symbol()
	switch t.Part {
	case check.SymbolModule:
		name = at.ModuleName()
	case check.SymbolAddress:
		name = at.String()
	}
	if t.Of == check.User && t.Part != check.SymbolModule && s.HasOption("noresolve") {
		name = at.Unresolved()
	}
	if t.Of == check.User {
		return format.UserPlaceOf(name, uint64(v.Pid), at.Address)
	}
	return format.PlaceOf(name, at.Address)
}

// at returns what is at the address of a value.
func (s *Session) at(v Value, t check.SymbolType) symbol.Place {
	if t.Of == check.User {
		return s.processes.Place(int(v.Pid), uint64(v.Int))
	}
	return s.kernel.Place(uint64(v.Int))
}

// same makes the addresses in a key alike that are printed alike: those of one function for func(),
// of one module for mod().
func (s *Session) same(key []byte, fields []ir.TupleField) {
	for _, f := range fields {
		t, ok := f.Type.(check.SymbolType)
		if !ok || t.Part == check.SymbolAddress {
			continue
		}
		at := s.at(FieldOf(key, f), t)
		if t.Part == check.SymbolModule {
			if at.Base != 0 {
				binary.NativeEndian.PutUint64(key[f.Offset:], at.Base)
			}
			continue
		}
		binary.NativeEndian.PutUint64(key[f.Offset:], at.Address-at.Offset)
	}
}

// named returns the values that %a and %A print the names of what is there; pid 0 is the target's.
func (s *Session) named(f *format.Format, values []format.Value, pid int) {
	if f == nil {
		return
	}
	if pid == 0 {
		pid = int(s.script.Program.Options.Target)
	}
	kernel, user := f.Addresses()
	for _, i := range kernel {
		if i < len(values) && values[i].Kind == format.Int {
			values[i].Text = s.kernel.Place(values[i].Num).String()
		}
	}
	for _, i := range user {
		if i < len(values) && values[i].Kind == format.Int {
			values[i].Text = s.processes.Place(pid, values[i].Num).String()
		}
	}
}

// part takes the number of a stack apart: its id, and how many of its frames are wanted; -1: all.
func (s *Session) part(number uint32) (id uint32, most int) {
	if !s.script.Program.Cuts {
		return number, -1
	}
	return check.CutStack(number)
}

// stack returns the frames of a stack by its id.
func (s *Session) stack(id uint32) format.Value {
	if id == 0 {
		return format.StackOf(nil, nil)
	}
	if known, ok := s.stacks[id]; ok {
		return known
	}
	pid, pcs, why := s.rawStack(id)
	if why != "" {
		return format.StackOf([]string{why}, nil)
	}
	places := s.places(pid, pcs)
	lines := make([]string, len(places))
	for i, p := range places {
		lines[i] = p.String()
		if pid != 0 && s.HasOption("noresolve") && !isPseudo(p.Address) {
			lines[i] = p.Unresolved()
		}
	}
	if pid != 0 && s.HasOption("inline") {
		lines, pcs = s.inlined(pid, lines, places, pcs)
	}
	v := format.StackOf(lines, pcs)
	s.stacks[id] = v
	return v
}

// inlined puts the functions that a compiler has put into others into a stack, each before the one
// that has it.
func (s *Session) inlined(
	pid int, lines []string, places []symbol.Place, pcs []uint64,
) ([]string, []uint64) {
	var all []string
	var at []uint64
	within := s.processes.InlinedIn(pid, addresses(pcs))
	for i := range pcs {
		var names []string
		if !isPseudo(pcs[i]) {
			names, within = within[0], within[1:]
		}
		for _, name := range names {
			all, at = append(
				all, symbol.Place{Module: places[i].Module, Name: name + inlinedMark}.String(),
			), append(at, pcs[i])
		}
		all, at = append(all, lines[i]), append(at, pcs[i])
	}
	return all, at
}

// inlineTime is how much CPU time a script takes at most to look for inlined functions.
const inlineTime = 2 * time.Second

// findInlined looks for the inlined functions of the stacks that were read and have no names yet.
func (s *Session) findInlined() {
	var asked []symbol.Asked
	for _, words := range s.raw {
		if len(words) > 1 && words[0] != 0 {
			asked = append(asked, symbol.Asked{PID: int(words[0]), PCs: addresses(words[1:])})
		}
	}
	runtime.LockOSThread() // whose time is counted
	defer runtime.UnlockOSThread()
	before := threadTime()
	s.processes.FindInlined(
		asked, func() bool { return s.inlining+threadTime()-before > inlineTime },
	)
	s.inlining += threadTime() - before
}

// rawStack takes the addresses of a stack, and of which process they are. why: it has none.
func (s *Session) rawStack(id uint32) (pid int, pcs []uint64, why string) {
	raw, ok := s.raw[id]
	if !ok {
		s.readStacks()
		if s.HasOption("inline") {
			s.findInlined()
		}
		raw, ok = s.raw[id]
	}
	if !ok {
		return 0, nil, fmt.Sprintf("(stack %d is lost)", id)
	}
	if raw == nil {
		return 0, nil, fmt.Sprintf("(stack %d is one of several)", id)
	}
	delete(s.raw, id)
	if raw[0] == 0 {
		return 0, raw[1:], ""
	}
	return int(raw[0]), s.marked(int(raw[0]), raw[1:]), ""
}

// readStacks reads the stacks that were seen until now, but those that were looked up: the process,
// then addresses. nil: this number was given twice, which only happens when the numbers of a kernel
// ran out.
func (s *Session) readStacks() {
	s.raw = map[uint32][]uint64{}
	s.eachStack(false, func(key []byte, id uint32) {
		if _, told := s.stacks[id]; told {
			return
		}
		if s.frames != nil {
			if _, told := s.frames.now[id]; told {
				return
			}
		}
		words := make([]uint64, 1, len(key)/8)
		words[0] = binary.NativeEndian.Uint64(key)
		for key = key[8:]; len(key) >= 8; key = key[8:] {
			pc := binary.NativeEndian.Uint64(key)
			if pc == 0 {
				break
			}
			words = append(words, pc)
		}
		if _, twice := s.raw[id]; twice {
			words = nil
		}
		s.raw[id] = words
	})
}

// text returns a piece of the script.
func (s *Session) text(at syntax.Span) string { return s.script.Program.Text[at.From:at.To] }

// place returns line and column of a byte of the text, from 1.
func (s *Session) place(pos int) (line, column int) {
	if part := s.script.origins.of(pos); part != nil {
		_, line, column = part.Source.Place(pos - part.From)
		return line, column
	}
	before := s.script.Program.Text[:min(pos, len(s.script.Program.Text))]
	line = 1 + strings.Count(before, "\n")
	return line, len(before) - strings.LastIndexByte(before, '\n')
}
