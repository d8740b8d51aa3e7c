package symbolizer

import (
	"math"
	"strings"

	"culprit/symbol"
	"culprit/symbol/interp/languages"
	"culprit/wire"
)

// decodeNumbers reads the numbers of an answer and checks them for the operation of the request.
func decodeNumbers(d *wire.Decoder, a *symbol.Answer, q *symbol.Request) {
	n := d.Count(1)
	most := 0                       // how many there may be
	limit := uint64(math.MaxUint64) // the value that each is below
	rising := false
	switch q.Op {
	case symbol.OpInstructions, symbol.OpReturns:
		if rising = true; len(q.Addrs) == 2 {
			limit = q.Addrs[1] - q.Addrs[0]
			most = int(min(limit, symbol.MostNumbers))
		}
	case symbol.OpProbeable:
		most, limit = len(q.Addrs), uint64(symbol.ProbeUnread)+1
	case symbol.OpVariable:
		most = 1
	case symbol.OpCode:
		most, limit = 1, uint64(symbol.I386)+1
	case symbol.OpSlots:
		most = symbol.MostSlots
	case symbol.OpUnwinding:
		most = languages.MostNumbers
	case symbol.OpFrames:
		most, limit = 2*len(q.Addrs), mostLine
	}
	all := q.Op == symbol.OpProbeable || q.Op == symbol.OpFrames
	if n > most || all && n != 0 && n != most {
		d.Fail("%d numbers", n)
		return
	}
	for i := range n {
		v := d.Uint()
		if v >= limit || rising && i > 0 && v <= a.Numbers[i-1] {
			d.Fail("number %d is out of range", i)
		}
		if d.Err != nil {
			return
		}
		a.Numbers = append(a.Numbers, v)
	}
	if q.Op == symbol.OpUnwinding && n > 0 {
		if languages.FromNumbers(a.Numbers) == nil {
			d.Fail("a layout of an interpreter is out of range")
		}
	}
}

// mostLine is above the number of every line.
const mostLine = 1 << 30

func appendNotes(b []byte, all []symbol.Note) []byte {
	b = wire.AppendUint(b, uint64(len(all)))
	for i := range all {
		n := &all[i]
		b = wire.AppendString(wire.AppendString(b, n.Provider), n.Name)
		b = wire.AppendUint(wire.AppendUint(b, n.Address), n.Semaphore)
		b = wire.AppendBool(wire.AppendBool(b, n.Enabled), n.Map != nil)
		b = wire.AppendUint(b, uint64(len(n.Arguments)))
		for _, a := range n.Arguments {
			b = wire.AppendBool(append(b, byte(a.Where), byte(a.Size), byte(a.Shift)), a.Signed)
			b = wire.AppendInt(wire.AppendInt(b, a.Number), a.Scale)
			for _, s := range []string{a.Register, a.Index, a.Why} {
				b = wire.AppendString(b, s)
			}
		}
		b = wire.AppendUint(b, uint64(len(n.Types)))
		for i, t := range n.Types {
			b = append(wire.AppendString(b, t), byte(n.Map[i]))
		}
	}
	return b
}

// notes reads what appendNotes has written.
func notes(d *wire.Decoder) (out []symbol.Note) {
	count := d.Count(8)
	if count > symbol.MostNotes {
		d.Fail("%d static probes", count)
		return nil
	}
	operands := 0
	for range count {
		n := symbol.Note{Provider: text(d, symbol.MostNoteText), Name: text(d, symbol.MostNoteText)}
		n.Address, n.Semaphore, n.Enabled = d.Uint(), d.Uint(), d.Bool()
		typed := d.Bool()
		k := d.Count(9)
		if operands += k; k > symbol.MostArguments || operands > symbol.MostOperands {
			d.Fail("%d arguments", operands)
			return nil
		}
		for range k {
			n.Arguments = append(n.Arguments, argument(d))
		}
		k = d.Count(2)
		if operands += k; operands > symbol.MostOperands || k > 0 && !typed {
			d.Fail("%d types", operands)
			return nil
		}
		if typed {
			n.Types, n.Map = []string{}, []int{}
		}
		for range k {
			n.Types = append(n.Types, text(d, symbol.MostNoteText))
			n.Map = append(n.Map, int(d.Byte()))
		}
		if d.Err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

// argument reads an argument of a static probe. Registers become instructions of a program, so
// that only names of registers pass.
func argument(d *wire.Decoder) symbol.Argument {
	a := symbol.Argument{Where: symbol.Where(d.Byte()), Size: int(d.Byte()), Shift: int(d.Byte()),
		Signed: d.Bool(), Number: d.Int(), Scale: d.Int(), Register: register(d), Index: register(d),
		Why: text(d, symbol.MostNoteText)}
	if a.Where > symbol.AtAddress || a.Shift > 63 || a.Scale < 0 || a.Scale > 16 ||
		a.Size == 0 || a.Size > 8 || a.Size&(a.Size-1) != 0 {
		d.Fail("an argument is out of range")
	}
	return a
}

// register reads the name of a register, or "".
func register(d *wire.Decoder) string {
	s := text(d, 4)
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		d.Fail("the register %q", s)
		return ""
	}
	return s
}

// A functionWriter writes functions as frames: the difference of the address, size, a bool, and
// the names. The readable name and the signature are "" when there is no other.
type functionWriter struct {
	seq  uint64
	send func(frame []byte) error
	buf  []byte
	last uint64
}

// add writes a function. The error is that of send.
func (w *functionWriter) add(f symbol.Function) error {
	if len(w.buf) == 0 {
		w.buf = wire.AppendUint(wire.Start(w.buf, kindFunctions), w.seq)
	}
	if f.Start < w.last {
		return symbol.ErrTooLong // functions are in order
	}
	w.buf = wire.AppendUint(wire.AppendUint(w.buf, f.Start-w.last), f.Size)
	w.last = f.Start
	w.buf = wire.AppendString(wire.AppendBool(w.buf, f.Indirect), f.Name)
	if f.Readable == f.Name {
		f.Readable = ""
	}
	w.buf = wire.AppendString(w.buf, f.Readable)
	if w.buf = wire.AppendString(w.buf, f.Signature); len(w.buf) < rowsFrame {
		return nil
	}
	return w.flush()
}

// flush sends the functions that were not sent. The error is that of send.
func (w *functionWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	b := wire.End(w.buf, 0)
	w.buf = w.buf[:0]
	return w.send(b)
}

// A functionReader reads what a functionWriter has written.
type functionReader struct {
	seq   uint64
	each  func(symbol.Function) error
	last  uint64
	count int
	err   error // of each
}

func (r *functionReader) kind() byte { return kindFunctions }

// failed returns the error of the caller.
func (r *functionReader) failed() error { return r.err }

// stop drops later functions.
func (r *functionReader) stop(err error) { r.err = err }

// decode passes on the functions of a frame until each has failed. The error means that they are
// invalid.
func (r *functionReader) decode(payload []byte) error {
	d := &wire.Decoder{Rest: payload}
	if got := d.Uint(); d.Err == nil && got != r.seq {
		d.Fail("functions of request %d, want %d", got, r.seq)
	}
	for d.Err == nil && len(d.Rest) > 0 {
		step := d.Uint()
		f := symbol.Function{Start: r.last + step, Size: d.Uint(), Indirect: d.Bool(),
			Name: text(d, symbol.MostName), Readable: text(d, symbol.MostName),
			Signature: text(d, symbol.MostName)}
		if r.count++; f.Start < r.last || f.Start+f.Size < f.Start || f.Name == "" ||
			r.count > symbol.MostFunctions {
			d.Fail("function %d is out of range", r.count)
		}
		if r.last = f.Start; f.Readable == "" {
			f.Readable = f.Name
		}
		if d.Err == nil && r.err == nil {
			r.err = r.each(f)
		}
	}
	return d.End()
}
