package flame

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// pprof's profiles are messages of protocol buffers, usually packed by gzip: profile.proto of github.com/google/pprof. A message is
// fields, each a key (number<<3 | wire type) and a value; what is read here is
//
//	Profile  1 sample_type  2 sample  3 mapping  4 location  5 function  6 string_table  11 period_type  12 period  14 default_sample_type
//	Sample   1 location_id, innermost first  2 value, one for each sample_type
//	Mapping  1 id  5 filename      Location  1 id  2 mapping_id  3 address  4 line, innermost first
//	Line     1 function_id  2 line     Function  1 id  2 name  4 filename  5 start_line     ValueType  1 type  2 unit

// mostProfile is how many bytes a profile in pprof's or speedscope's format may have: it is read whole.
const mostProfile = 2 << 30

// A wire reads the fields of one message.
type wire struct {
	b    []byte
	base int64 // of b in the input
	all  int   // bytes of b at first
}

var errWire = errors.New("cut off, or not of protocol buffers")

// at gives where in the input the reader is.
func (w *wire) at() int64 { return w.base + int64(w.all-len(w.b)) }

// next gives a field: its number, and a number or bytes, or for a field of fixed size neither.
func (w *wire) next() (field int, n uint64, bytes []byte, err error) {
	key, err := w.varint()
	if err != nil {
		return 0, 0, nil, err
	}
	field = int(key >> 3)
	if field == 0 || key>>3 > 1<<29 {
		return 0, 0, nil, errWire
	}
	switch key & 7 {
	case 0:
		n, err = w.varint()
		return field, n, nil, err
	case 1, 5:
		size := map[uint64]int{1: 8, 5: 4}[key&7]
		if len(w.b) < size {
			return 0, 0, nil, errWire
		}
		w.b = w.b[size:]
		return field, 0, nil, nil
	case 2:
		size, err := w.varint()
		if err != nil || size > uint64(len(w.b)) {
			return 0, 0, nil, errWire
		}
		bytes, w.b = w.b[:size:size], w.b[size:]
		return field, 0, bytes, nil
	}
	return 0, 0, nil, errWire
}

func (w *wire) varint() (uint64, error) {
	n, size := binary.Uvarint(w.b)
	if size <= 0 {
		return 0, errWire
	}
	w.b = w.b[size:]
	return n, nil
}

// in gives a reader of a message within this one, that was just read.
func (w *wire) in(b []byte) *wire { return &wire{b: b, base: w.at() - int64(len(b)), all: len(b)} }

// numbers adds a repeated number: packed, or one alone.
func (w *wire) numbers(to []uint64, n uint64, packed []byte) ([]uint64, error) {
	if packed == nil {
		return append(to, n), nil
	}
	in := w.in(packed)
	for len(in.b) > 0 {
		n, err := in.varint()
		if err != nil {
			return to, err
		}
		to = append(to, n)
	}
	return to, nil
}

// looksPProf says whether bytes begin like a profile: with a field of its, of the right type, and not like text. Whole: there are no more of them; then sure
// says whether they are one to their end, since a line of text may be a field as well.
func looksPProf(head []byte, whole bool) (looks, sure bool) {
	control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' && r != '\r' && r != 0x1b }
	if len(head) < 2 || bytes.IndexFunc(head[:min(64, len(head))], control) < 0 {
		return false, false // text
	}
	w, amounts := &wire{b: head, all: len(head)}, false // no profile is without a field that says what its amounts are
	for i := 0; len(w.b) > 0; i++ {
		if i == 4 && !whole {
			return true, true
		}
		key, size := binary.Uvarint(w.b)
		if size <= 0 || key>>3 == 0 || key>>3 > 16 {
			return i >= 4 || i > 0 && size == 0, false
		}
		number := key>>3 == 7 || key>>3 == 8 || key>>3 == 9 || key>>3 == 10 || key>>3 == 12 || key>>3 == 14
		list := key>>3 == 13 // of numbers: packed, or one alone
		if number && key&7 != 0 || !number && key&7 != 2 && !(list && key&7 == 0) {
			return i >= 4, false
		}
		if _, _, _, err := w.next(); err != nil {
			looks = i > 0 || !whole && key&7 == 2 && int(key>>3) <= 6 // longer than what is looked at
			return looks, looks && !whole
		}
		amounts = amounts || key>>3 == 1
	}
	return true, amounts || !whole
}

type pprofLocation struct {
	id, mapping, address uint64
	lines                [][2]uint64 // function, line; innermost first
}

type pprofFunction struct{ name, file, line uint64 }

// pprofReader is a profile as far as it was read.
type pprofReader struct {
	strings   [][]byte
	types     [][2]uint64 // type and unit, as strings
	period    [2]uint64
	every     uint64
	preferred uint64
	mappings  map[uint64]uint64 // to the name of the file
	functions map[uint64]pprofFunction
	locations map[uint64]pprofLocation
	b         *Builder
	frames    map[uint64][]uint32 // by location, outermost first
	o         Options
}

func (p *pprofReader) text(i uint64) []byte {
	if i < uint64(len(p.strings)) {
		return p.strings[i]
	}
	return nil
}

func readPProf(r io.Reader, o Options) (*Tree, error) {
	in, err := io.ReadAll(io.LimitReader(r, mostProfile+1))
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	if len(in) > mostProfile {
		return nil, &ParseError{Byte: mostProfile, What: "a profile of more than 2 GB"}
	}
	p := &pprofReader{mappings: map[uint64]uint64{}, functions: map[uint64]pprofFunction{}, locations: map[uint64]pprofLocation{}, b: NewBuilder(), frames: map[uint64][]uint32{}, o: o}
	w := &wire{b: in, all: len(in)}
	wrong := func(err error, at int64) error { return &ParseError{Byte: at, What: "pprof: " + err.Error()} }
	var samples [][]byte
	for len(w.b) > 0 {
		at := w.at()
		field, n, b, err := w.next()
		if err == nil {
			switch field {
			case 1:
				var v [2]uint64
				v, err = pair(w.in(b), 1, 2)
				p.types = append(p.types, v)
			case 2:
				samples = append(samples, b)
			case 3:
				var v [2]uint64
				v, err = pair(w.in(b), 1, 5)
				p.mappings[v[0]] = v[1]
			case 4:
				err = p.location(w.in(b))
			case 5:
				err = p.function(w.in(b))
			case 6:
				p.strings = append(p.strings, b)
			case 11:
				p.period, err = pair(w.in(b), 1, 2)
			case 12:
				p.every = n
			case 14:
				p.preferred = n
			}
		}
		if err != nil {
			return nil, wrong(err, at)
		}
	}
	value, err := p.value()
	if err != nil {
		return nil, err
	}
	counts := slices.IndexFunc(p.types, func(t [2]uint64) bool { return string(p.text(t[1])) == "count" && string(p.text(t[0])) == "samples" })
	var ids, values []uint64
	var stack []uint32
	negative, short, taken := 0, 0, 0.0
	for _, s := range samples {
		w := &wire{b: s, all: len(s)}
		ids, values = ids[:0], values[:0]
		for len(w.b) > 0 {
			field, n, b, err := w.next()
			switch {
			case err == nil && field == 1:
				ids, err = w.numbers(ids, n, b)
			case err == nil && field == 2:
				values, err = w.numbers(values, n, b)
			}
			if err != nil {
				return nil, wrong(err, 0)
			}
		}
		if value >= len(values) {
			short++
			continue
		}
		if counts >= 0 && counts < len(values) {
			taken += max(0, float64(int64(values[counts])))
		}
		amount := int64(values[value])
		if amount < 0 {
			negative++
			continue
		}
		stack = stack[:0]
		for _, id := range slices.Backward(ids) {
			stack = append(stack, p.stack(id)...)
		}
		p.b.Stack(stack, float64(amount))
	}
	t := p.b.Tree()
	t.Samples = taken
	kind, unit := string(p.text(p.types[value][0])), string(p.text(p.types[value][1]))
	t.Unit = map[string]string{"nanoseconds": "ns", "count": kind}[unit]
	t.Unit = cmp.Or(t.Unit, unit, kind, "samples")
	if unit == "nanoseconds" && kind == "cpu" {
		t.Seconds = t.Sum() / 1e9
	}
	if len(p.types) > 1 {
		t.note(fmt.Sprintf("of the amounts %s this is %s", p.typeNames(), clean(shortened(kind, 60))))
	}
	if negative > 0 {
		t.note(plural(negative, "sample has", "samples have") + " a negative amount and were left out: it is the difference of two profiles")
	}
	if short > 0 {
		t.note(plural(short, "sample has", "samples have") + " no such amount")
	}
	return t, nil
}

// typeNames lists the amounts that the profile has.
func (p *pprofReader) typeNames() string {
	var names []string
	for _, t := range p.types[:min(len(p.types), 10)] {
		names = append(names, clean(shortened(string(p.text(t[0])), 60)))
	}
	return strings.Join(names, ", ")
}

// value gives which of the amounts is meant.
func (p *pprofReader) value() (int, error) {
	if len(p.types) == 0 {
		return 0, &ParseError{What: "pprof: the profile does not say what its amounts are"}
	}
	want := p.text(p.preferred)
	if p.o.Value != "" {
		want = []byte(p.o.Value)
	}
	for i, t := range p.types {
		if len(want) > 0 && bytes.Equal(p.text(t[0]), want) {
			return i, nil
		}
	}
	if p.o.Value != "" {
		return 0, &ParseError{What: fmt.Sprintf("pprof: there is no amount %q; there are %s", p.o.Value, p.typeNames())}
	}
	return len(p.types) - 1, nil
}

// pair reads two numbers of a message.
func pair(w *wire, first, second int) (v [2]uint64, err error) {
	for len(w.b) > 0 {
		field, n, _, err := w.next()
		if err != nil {
			return v, err
		}
		switch field {
		case first:
			v[0] = n
		case second:
			v[1] = n
		}
	}
	return v, nil
}

func (p *pprofReader) location(w *wire) error {
	var l pprofLocation
	for len(w.b) > 0 {
		field, n, b, err := w.next()
		if err != nil {
			return err
		}
		switch field {
		case 1:
			l.id = n
		case 2:
			l.mapping = n
		case 3:
			l.address = n
		case 4:
			line, err := pair(w.in(b), 1, 2)
			if err != nil {
				return err
			}
			l.lines = append(l.lines, line)
		}
	}
	p.locations[l.id] = l
	return nil
}

func (p *pprofReader) function(w *wire) error {
	var f pprofFunction
	id := uint64(0)
	for len(w.b) > 0 {
		field, n, _, err := w.next()
		if err != nil {
			return err
		}
		switch field {
		case 1:
			id = n
		case 2:
			f.name = n
		case 4:
			f.file = n
		case 5:
			f.line = n
		}
	}
	p.functions[id] = f
	return nil
}

// stack gives the functions of a location, outermost first.
func (p *pprofReader) stack(id uint64) []uint32 {
	if known, ok := p.frames[id]; ok {
		return known
	}
	l, ok := p.locations[id]
	file := p.text(p.mappings[l.mapping])
	module, kind := baseName(file), kindByFile(file)
	var out []uint32
	for _, line := range l.lines {
		f := p.functions[line[0]]
		name := p.text(f.name)
		if len(name) == 0 {
			name = fmt.Appendf(nil, "0x%x", l.address)
		}
		k := kind
		if marked := kindByName(name); marked != Code {
			k = marked
		}
		n := p.b.Function(name, module, k)
		if g := &p.b.tree.Functions[n]; g.File == "" {
			g.File, g.Line = string(p.text(f.file)), int(min(cmp.Or(f.line, line[1]), math.MaxInt32))
		}
		out = append(out, n)
	}
	if len(out) == 0 {
		name := fmt.Appendf(nil, "0x%x", l.address)
		if !ok {
			name = []byte("[no location]")
		}
		out = append(out, p.b.Function(name, module, kind))
	}
	slices.Reverse(out)
	p.frames[id] = out
	return out
}

// WritePProf writes a profile for pprof and what reads its format, packed by gzip. Amounts are whole numbers there.
func WritePProf(w io.Writer, t *Tree) error {
	z := gzip.NewWriter(w)
	out := bufio.NewWriterSize(z, 64<<10)
	words, index := []string{""}, map[string]uint64{"": 0}
	word := func(s string) uint64 {
		i, ok := index[s]
		if !ok {
			i = uint64(len(words))
			words, index[s] = append(words, s), i
		}
		return i
	}
	var buf, inner []byte
	message := func(field int, body []byte) {
		buf = binary.AppendUvarint(buf[:0], uint64(field)<<3|2)
		buf = binary.AppendUvarint(buf, uint64(len(body)))
		out.Write(append(buf, body...)) //nolint:errcheck // told when it is flushed
	}
	number := func(b []byte, field int, n uint64) []byte {
		if n == 0 {
			return b
		}
		return binary.AppendUvarint(binary.AppendUvarint(b, uint64(field)<<3), n)
	}
	kind, unit := t.Unit, "count"
	switch t.Unit {
	case "ns":
		kind, unit = "cpu", "nanoseconds"
	case "bytes":
		kind, unit = "space", "bytes"
	}
	message(1, number(number(nil, 1, word(kind)), 2, word(unit)))
	mapping := map[string]uint64{}
	for i := 1; i < len(t.Functions); i++ {
		f := &t.Functions[i]
		file := f.Module
		if f.Kind == Kernel && kindByFile([]byte(file)) != Kernel {
			file = "[" + cmp.Or(file, "kernel.kallsyms") + "]"
		}
		if f.Kind == JIT && kindByFile([]byte(file)) != JIT {
			file = "perf-.map"
		}
		if file != "" && mapping[file] == 0 {
			mapping[file] = uint64(len(mapping) + 1)
			message(3, number(number(nil, 1, mapping[file]), 5, word(file)))
		}
		inner = number(inner[:0], 1, uint64(i))
		inner = number(inner, 2, word(f.Name))
		inner = number(inner, 3, word(f.Name))
		inner = number(inner, 4, word(f.File))
		message(5, number(inner, 5, uint64(f.Line)))
		line := number(number(nil, 1, uint64(i)), 2, uint64(f.Line))
		inner = number(number(inner[:0], 1, uint64(i)), 2, mapping[file])
		inner = binary.AppendUvarint(binary.AppendUvarint(inner, 4<<3|2), uint64(len(line)))
		message(4, append(inner, line...))
	}
	var ids []byte
	for i := range t.Len() {
		if t.Self[i] == 0 {
			continue
		}
		ids = ids[:0]
		for n := int32(i); n > 0; n = t.Parent[n] {
			ids = binary.AppendUvarint(ids, uint64(t.Function[n]))
		}
		inner = inner[:0]
		if len(ids) > 0 {
			inner = append(binary.AppendUvarint(binary.AppendUvarint(inner, 1<<3|2), uint64(len(ids))), ids...)
		}
		value := binary.AppendUvarint(nil, uint64(math.Round(min(t.Self[i], 1<<62))))
		inner = append(binary.AppendUvarint(binary.AppendUvarint(inner, 2<<3|2), uint64(len(value))), value...)
		message(2, inner)
	}
	for _, s := range words {
		message(6, []byte(strings.ToValidUTF8(s, "\uFFFD")))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return z.Close()
}
