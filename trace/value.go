package trace

import (
	"encoding/binary"
	"strings"

	"culprit/lang/check"
	"culprit/lang/format"
	"culprit/lang/ir"
	"culprit/lang/syntax"
)

// Key returns an element of a key as it is printed.
func (s *Session) Key(raw []byte, f ir.TupleField) format.Value { return s.value(FieldOf(raw, f)) }

// value returns a value of a program as it is printed: stacks and addresses get their names.
func (s *Session) value(v Value) format.Value {
	switch t := v.Type.(type) {
	case check.StringType:
		return format.TextOf(string(v.Bytes), s.script.IR.StrMost+1)
	case *check.Int:
		return format.IntOf(v.Int, int(t.Bytes), t.Signed)
	case check.StackType:
		id, most := s.stacks.cut(uint32(v.Int))
		if s.stacks.frames != nil && s.stacks.frames.kept {
			return format.IntOf(int64(s.stacks.storedFrame(id)), 4, false)
		}
		return s.stacks.text(id).Innermost(most)
	case check.SymbolType:
		return s.symbolValue(v, t)
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

// symbolValue returns an address with its name, as sym(), func(), mod() or usym(), ufunc(), umod()
// print it.
func (s *Session) symbolValue(v Value, t check.SymbolType) format.Value {
	at := s.symbols.place(v, t)
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

// unify makes addresses in a key equal that are printed alike: those of one function for func(), of
// one module for mod().
func (s *symbols) unify(key []byte, fields []ir.TupleField) {
	for _, f := range fields {
		t, ok := f.Type.(check.SymbolType)
		if !ok || t.Part == check.SymbolAddress {
			continue
		}
		at := s.place(FieldOf(key, f), t)
		if t.Part == check.SymbolModule {
			if at.Base != 0 {
				binary.NativeEndian.PutUint64(key[f.Offset:], at.Base)
			}
			continue
		}
		binary.NativeEndian.PutUint64(key[f.Offset:], at.Address-at.Offset)
	}
}

// addNames sets the texts of the values that %a and %A of f print as names. pid is the process of
// user addresses; 0: the target of the script.
func (s *Session) addNames(f *format.Format, values []format.Value, pid int) {
	if f == nil {
		return
	}
	if pid == 0 {
		pid = int(s.script.Program.Options.Target)
	}
	kernel, user := f.Addresses()
	for _, i := range kernel {
		if i < len(values) && values[i].Kind == format.Int {
			values[i].Text = s.symbols.kernel.Place(values[i].Num).String()
		}
	}
	for _, i := range user {
		if i < len(values) && values[i].Kind == format.Int {
			values[i].Text = s.symbols.processes.Place(pid, values[i].Num).String()
		}
	}
}

// text returns the text of the script at a span.
func (c *Compiled) text(at syntax.Span) string { return c.Program.Text[at.From:at.To] }

// place returns line and column of a byte of the script, from 1. In preprocessed text they are
// those of the user's file.
func (c *Compiled) place(pos int) (line, column int) {
	if part := c.origins.of(pos); part != nil {
		_, line, column = part.Source.Place(pos - part.From)
		return line, column
	}
	before := c.Program.Text[:min(pos, len(c.Program.Text))]
	line = 1 + strings.Count(before, "\n")
	return line, len(before) - strings.LastIndexByte(before, '\n')
}
