package symbolizer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/symbol"
	"culprit/wire"

	"golang.org/x/sys/unix"
)

// A part is a section of an ELF file.
type part struct {
	name string
	kind uint32
	link uint32
	data []byte
}

// elfFile returns an ELF file for this machine's byte order with one segment, which is loaded at
// 0x1000 and executable. The first section has number 1, names of sections come last.
func elfFile(parts ...part) []byte {
	le := binary.LittleEndian
	const head, segment, section = 64, 56, 64
	b := make([]byte, head+segment)
	names := []byte{0}
	table := make([]byte, section)
	parts = append(slices.Clone(parts), part{name: ".shstrtab", kind: 3})
	for i, p := range parts {
		name := len(names)
		names = append(append(names, p.name...), 0)
		if i == len(parts)-1 {
			p.data = names
		}
		s := make([]byte, section)
		le.PutUint32(s, uint32(name))
		le.PutUint32(s[4:], p.kind)
		le.PutUint64(s[24:], uint64(len(b)))
		le.PutUint64(s[32:], uint64(len(p.data)))
		le.PutUint32(s[40:], p.link)
		table, b = append(table, s...), append(b, p.data...)
	}
	copy(b, "\x7fELF\x02\x01\x01")
	le.PutUint16(b[16:], 3)
	le.PutUint16(b[18:], 62)
	le.PutUint64(b[32:], head)
	le.PutUint64(b[40:], uint64(len(b)))
	for at, v := range map[int]uint16{52: head, 54: segment, 56: 1, 58: section,
		60: uint16(len(parts) + 1), 62: uint16(len(parts))} {
		le.PutUint16(b[at:], v)
	}
	le.PutUint32(b[head:], 1)
	le.PutUint32(b[head+4:], 5)
	for at, v := range map[int]int{16: 0x1000, 32: len(b), 40: len(b)} {
		le.PutUint64(b[head+at:], uint64(v))
	}
	return append(b, table...)
}

// stapNote is a note of SystemTap.
func stapNote(addr, semaphore uint64, text string) []byte {
	le := binary.LittleEndian
	desc := le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, addr), 0), semaphore)
	desc = append(desc, text...)
	var b []byte
	for _, n := range []int{8, len(desc), 3} {
		b = le.AppendUint32(b, uint32(n))
	}
	b = append(append(b, "stapsdt\x00"...), desc...)
	return append(b, make([]byte, -len(b)&3)...)
}

// function is an entry of a table of symbols. info is binding and type.
func function(name uint32, info byte, start, size uint64) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(append(le.AppendUint32(nil, name), info, 0), 1)
	return le.AppendUint64(le.AppendUint64(b, start), size)
}

// notedFile returns a file with functions, a variable and static probes. The code at 0x1078 is
// 120 bytes behind the start of the file: push, hlt, a locked instruction, one of AVX, ret.
func notedFile() []byte {
	code := []byte("\x55\xf4\xf0\xff\x00\xc5\xf8\x77\xc3")
	names := "\x00work\x00_ZN2ns3boxIiE3getEi\x00counter\x00chooses@@V_1\x00"
	symbols := slices.Concat(function(0, 0, 0, 0), function(1, 0x12, 0x1078, 9),
		function(6, 0x12, 0x1078, 9), function(26, 0x11, 0x1300, 8), function(34, 0x1a, 0x1081, 4))
	return elfFile(
		part{name: ".text", kind: 1, data: code},
		part{name: ".symtab", kind: 2, link: 3, data: symbols},
		part{name: ".strtab", kind: 3, data: []byte(names)},
		part{name: ".note.stapsdt", kind: 7, data: slices.Concat(
			stapNote(0x1078, 0x1300, "app\x00done\x00-4@%edi 8@counter+8(%rip) 8@nothing\x00"),
			stapNote(0x1079, 0, "a\x1bpp\x00none\x00\x00"))},
	)
}

// inMemory returns an open file with that content.
func inMemory(t testing.TB, content []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("elf", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "elf")
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f
}

// noted opens a file with static probes.
func noted(t testing.TB) *os.File {
	t.Helper()
	f := inMemory(t, notedFile())
	t.Cleanup(func() { f.Close() }) //nolint:errcheck // it was read from
	return f
}

// TestCode: what a symbolizer reads of a file whose content is known.
func TestCode(t *testing.T) {
	c, _ := client(t, always("good"))
	f := noted(t)
	path := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	code, err := symbol.NewProcessesOf(kernel.Root{}, symbol.NewToolFiles(c)).OpenCode(path)
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close() //nolint:errcheck // it was read from
	if code.Class != symbol.Native || code.Go || code.Stripped() || !code.Executable(0x1078) ||
		code.Executable(0xfff) {
		t.Errorf("%+v", code)
	}
	funcs, err := code.Functions()
	want := []symbol.Function{
		{Name: "_ZN2ns3boxIiE3getEi", Readable: "ns::box<int>::get",
			Signature: "ns::box<int>::get(int)", Start: 0x1078, Size: 9},
		{Name: "work", Readable: "work", Start: 0x1078, Size: 9},
		{Name: "chooses", Readable: "chooses", Start: 0x1081, Size: 4, Indirect: true},
	}
	if err != nil || !reflect.DeepEqual(funcs, want) {
		t.Fatalf("%+v, %v; want %+v", funcs, err, want)
	}
	starts, err := code.Instructions(funcs[1])
	if err != nil || !slices.Equal(starts, []uint64{0, 1, 2, 5, 8}) {
		t.Errorf("instructions at %v, %v", starts, err)
	}
	if at, err := code.Returns(funcs[1]); err != nil || !slices.Equal(at, []uint64{8}) {
		t.Errorf("returns at %v, %v", at, err)
	}
	testNotes(t, code)
}

// testNotes checks the static probes and the variable of notedFile, and which instructions can have
// a probe.
func testNotes(t *testing.T, code *symbol.Code) {
	t.Helper()
	notes, err := code.Notes()
	if err != nil || len(notes) != 2 || notes[1].Provider != "a?pp" || len(notes[0].Arguments) != 3 {
		t.Fatalf("%+v, %v", notes, err)
	}
	args := notes[0].Arguments
	if args[0].Register != "rdi" || args[1].Register != "pc" || args[1].Number != 0x1308 ||
		args[2].Where != symbol.Nowhere || !strings.Contains(args[2].Why, "nothing") {
		t.Errorf("the arguments are %+v", args)
	}
	if addr, err := code.Variable("counter"); err != nil || addr != 0x1300 {
		t.Errorf("the variable is at %x, %v", addr, err)
	}
	if addr, err := code.Variable("count"); err == nil {
		t.Errorf("another variable is at %x", addr)
	}
	at, _ := code.Offset(0x1078)
	why := code.Probeable([]uint64{at + 5, at, at + 1, at + 2, at + 5, 1 << 40})
	if why[0] != symbol.ErrUnsafe || why[1] != nil || why[2] != symbol.ErrNever || why[3] == nil ||
		why[4] != symbol.ErrUnsafe || why[5] == nil {
		t.Errorf("the probes fail with %v", why)
	}
}

// TestCodeOfDeadReader: a reader that dies is reported as such, and not as a file without
// functions or probes.
func TestCodeOfDeadReader(t *testing.T) {
	alive := inMemory(t, notedFile())
	defer alive.Close() //nolint:errcheck // it was read from
	n := 0
	r := &failingReader{Reader: &symbol.OwnReader{}, fails: func(symbol.Op) bool {
		n++
		return n > 1
	}}
	path := fmt.Sprintf("/proc/self/fd/%d", alive.Fd())
	code, err := symbol.NewProcessesOf(kernel.Root{}, symbol.NewToolFiles(r)).OpenCode(path)
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close() //nolint:errcheck // it was read from
	_, functions := code.Functions()
	_, notes := code.Notes()
	_, variable := code.Variable("counter")
	for _, err := range []error{functions, notes, variable, code.Probeable([]uint64{1})[0]} {
		if !errors.Is(err, symbol.ErrUnavailable) {
			t.Errorf("%v", err)
		}
	}
	n = -9 // the next requests are answered
	if list, err := code.Functions(); err != nil || len(list) != 3 {
		t.Errorf("%v, %v", list, err)
	}
}

// A failingReader fails some requests as a process that has died.
type failingReader struct {
	symbol.Reader
	fails func(symbol.Op) bool
}

func (r *failingReader) Read(q *symbol.Request) (*symbol.Answer, error) {
	if r.fails(q.Op) {
		return nil, symbol.ErrFailed
	}
	return r.Reader.Read(q)
}

// longNames returns a file of a thousand sections, whose common name is 64 KiB long.
func longNames() []byte {
	const many, section, offset, sizes = 1000, 64, 24, 16
	le := binary.LittleEndian
	parts := slices.Repeat([]part{{kind: 7}}, many)
	parts = append(parts, part{kind: 1, data: slices.Repeat([]byte("a"), 64<<10)})
	b := elfFile(parts...)
	table := b[le.Uint64(b[40:]):]
	names, last := table[section*(many+1):], table[section*(many+2):]
	copy(last[offset:offset+sizes], names[offset:]) // where the names are, and how long
	for ; len(table) > 0; table = table[section:] {
		le.PutUint32(table, 0)
	}
	return b
}

// FuzzCode: whatever a file is, this process reads it within its limits, and the client accepts
// what it answers.
func FuzzCode(f *testing.F) {
	f.Add(notedFile())
	f.Add(elfFile())
	f.Add(longNames())
	f.Add([]byte("\x7fELF"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		file := inMemory(t, b)
		defer file.Close() //nolint:errcheck // it was read from
		r := &symbol.OwnReader{}
		for _, q := range []*symbol.Request{
			{Op: symbol.OpCode}, {Op: symbol.OpFunctions}, {Op: symbol.OpFunctions, Debug: file},
			{Op: symbol.OpNotes}, {Op: symbol.OpVariable, Text: []byte("counter")},
			{Op: symbol.OpSlots, Addrs: []uint64{0x1000}, Text: []byte("counter")},
			{Op: symbol.OpProbeable, Addrs: []uint64{0, 120, 1 << 40}},
			{Op: symbol.OpInstructions, Addrs: []uint64{120, 160}},
			{Op: symbol.OpReturns, Addrs: []uint64{1, 1 << 50}},
		} {
			q.File, q.Limit = file, time.Minute
			var frames [][]byte
			w := &functionWriter{seq: 1, send: func(b []byte) error {
				frames = append(frames, slices.Clone(b[wire.HeadSize:]))
				return nil
			}}
			q.Function = w.add
			a, err := r.Read(q)
			if err := w.flush(); err != nil {
				t.Fatal(err)
			}
			functions := &functionReader{seq: 1, each: func(symbol.Function) error { return nil }}
			for _, b := range frames {
				if err := functions.decode(b); err != nil {
					t.Fatalf("functions: %v", err)
				}
			}
			sent := appendAnswer(nil, 1, a, err, usage{})
			got, _, _, err := decodeAnswer(sent, 1, q, int64(len(b)))
			if err != nil {
				t.Fatalf("operation %d: %v", q.Op, err)
			}
			if !reflect.DeepEqual(got.Numbers, a.Numbers) || len(got.Notes) != len(a.Notes) {
				t.Fatalf("operation %d: %+v, want %+v", q.Op, got, a)
			}
		}
	})
}

// addNotes adds answers with static probes and numbers, and functions.
func addNotes(f *testing.F) {
	a := &symbol.Answer{Numbers: []uint64{1, 5}, Notes: []symbol.Note{{Provider: "p", Name: "n",
		Address: 7, Semaphore: 9, Types: []string{"int"}, Map: []int{1}, Arguments: []symbol.Argument{
			{Where: symbol.InMemory, Size: 4, Register: "rax", Index: "rcx", Scale: 8, Why: "w"}}}}}
	var functions []byte
	w := &functionWriter{seq: 1, send: func(b []byte) error {
		functions = append(functions, b[wire.HeadSize:]...)
		return nil
	}}
	for i := range uint64(5) {
		err := w.add(symbol.Function{Name: "f", Readable: "g", Start: 16 * i, Size: 8})
		if err != nil {
			f.Fatal(err)
		}
	}
	if err := w.flush(); err != nil {
		f.Fatal(err)
	}
	f.Add(appendAnswer(nil, 1, a, nil, usage{}), functions)
}

// fuzzCodeAnswers checks what a client accepts of answers on code, and of functions.
func fuzzCodeAnswers(t *testing.T, answer, functions []byte) {
	last := uint64(0)
	r := functionReader{seq: 1, each: func(f symbol.Function) error {
		if f.Start < last || f.Name == "" || f.Readable == "" || f.Start+f.Size < f.Start {
			t.Fatalf("%+v", f)
		}
		last = f.Start
		return nil
	}}
	_ = r.decode(functions) // any error will do
	for _, q := range []*symbol.Request{
		{Op: symbol.OpInstructions, Addrs: []uint64{10, 30}},
		{Op: symbol.OpProbeable, Addrs: []uint64{10, 30}}, {Op: symbol.OpNotes},
	} {
		a, _, _, err := decodeAnswer(answer, 1, q, 100)
		if err != nil {
			continue
		}
		for i, n := range a.Numbers {
			if n >= 20 || i > 0 && n <= a.Numbers[i-1] && q.Op == symbol.OpInstructions {
				t.Fatalf("the numbers are %v", a.Numbers)
			}
		}
		for _, n := range a.Notes {
			if len(n.Types) != len(n.Map) || len(n.Arguments) > symbol.MostArguments {
				t.Fatalf("%+v", n)
			}
		}
	}
}
