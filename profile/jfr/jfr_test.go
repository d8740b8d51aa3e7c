package jfr

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// recording returns the recording of testdata/Split.java.
func recording(t testing.TB) []byte {
	t.Helper()
	f, err := os.Open("testdata/split.jfr.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // read
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// result is what a file contains.
type result struct {
	samples map[string]int     // by event
	stacks  map[string]int     // by event, thread and frames
	amounts map[string]float64 // sums by event and value
	others  map[string]int
	file    *File
	charged int
	kept    int // charged and not released
}

// readAll reads a file.
func readAll(t testing.TB, in []byte, wants ...string) (r result, err error) {
	t.Helper()
	r = result{samples: map[string]int{}, stacks: map[string]int{},
		amounts: map[string]float64{}, others: map[string]int{}}
	r.file, err = Read(bytes.NewReader(in), Handler{
		Charge: func(n int) {
			r.kept += n
			if r.charged += n; n < 0 || r.charged > 1<<32 {
				t.Fatalf("charged %d, %d in all", n, r.charged)
			}
		},
		Release: func(n int) { r.kept -= n },
		Wants:   func(e string) bool { return len(wants) == 0 || slices.Contains(wants, e) },
		Other:   func(e string, n int) { r.others[e] += n },
		Sample: func(s *Sample) error {
			r.samples[s.Event]++
			line := s.Event
			if s.Thread != nil {
				line += ";" + s.Thread.Name
			}
			for _, f := range slices.Backward(s.Frames) {
				line += ";" + f.Method.Class + "." + f.Method.Name
				if f.Kind == "Inlined" {
					line += " (inlined)"
				}
			}
			r.stacks[line]++
			for _, v := range s.Values {
				r.amounts[s.Event+" "+v.Name+" "+v.Unit] += v.Amount
			}
			return nil
		},
	})
	return r, err
}

// The numbers are those of jfr summary and jfr print for this file.
func TestRecording(t *testing.T) {
	r, err := readAll(t, recording(t))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"jdk.ExecutionSample": 18, "jdk.ObjectAllocationSample": 61,
		"jdk.JavaMonitorEnter": 5, "jdk.ThreadSleep": 16}
	for event, n := range want {
		if r.samples[event] != n {
			t.Errorf("%s: %d samples, want %d", event, r.samples[event], n)
		}
	}
	if r.file.Cut || r.file.Chunks != 1 || r.file.Unread != 0 || r.file.Lost != 0 {
		t.Errorf("%+v", r.file)
	}
	if r.kept != 0 || r.charged < 100_000 {
		t.Errorf("%d bytes charged, %d not released", r.charged, r.kept)
	}
}

// A recording has several chunks. Each explains itself.
func TestSeveralChunks(t *testing.T) {
	one, err := readAll(t, recording(t))
	if err != nil {
		t.Fatal(err)
	}
	b := recording(t)
	three, err := readAll(t, slices.Concat(b, b, b))
	if err != nil {
		t.Fatal(err)
	}
	for line, n := range one.stacks {
		if three.stacks[line] != 3*n {
			t.Errorf("%s: %d, and in three chunks %d", line, n, three.stacks[line])
		}
	}
	if three.file.Chunks != 3 || three.file.End != one.file.End ||
		len(three.stacks) != len(one.stacks) {
		t.Errorf("%+v, %+v", three.file, one.file)
	}
}

// Of a file that is cut off anywhere, the whole chunks are read, and the rest is counted.
func TestCut(t *testing.T) {
	b := recording(t)
	whole, err := readAll(t, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{
		1, headerSize - 1, headerSize, headerSize + 1, len(b) / 2, len(b) - 1,
	} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			r, err := readAll(t, append(slices.Clone(b), b[:more]...))
			if err != nil {
				t.Fatal(err)
			}
			if !r.file.Cut {
				t.Error("it is not cut")
			}
			for line, n := range whole.stacks {
				if r.stacks[line] < n {
					t.Errorf("%s: %d of %d", line, r.stacks[line], n)
				}
			}
		})
	}
	var wrong *Error
	if _, err := readAll(t, b[:30]); !errors.As(err, &wrong) || wrong.Byte != 30 {
		t.Errorf("%v", err)
	}
}

// Bytes behind the last chunk, as a killed program leaves them, are counted.
func TestBytesBehindTheLastChunk(t *testing.T) {
	r, err := readAll(t, append(recording(t), make([]byte, 100)...))
	if err != nil || !r.file.Cut || r.file.Unread != 100 || r.samples["jdk.ExecutionSample"] != 18 {
		t.Errorf("%+v, %v", r.file, err)
	}
}

// A maker writes chunks.
type maker struct {
	compressed bool
	b          []byte
}

func (m *maker) long(v int64, size int) {
	if !m.compressed {
		m.b = append(m.b, binary.BigEndian.AppendUint64(nil, uint64(v))[8-size:]...)
		return
	}
	u := uint64(v)
	for range 8 {
		if u < 0x80 {
			m.b = append(m.b, byte(u))
			return
		}
		m.b = append(m.b, byte(u)|0x80)
		u >>= 7
	}
	m.b = append(m.b, byte(u))
}

func (m *maker) longs(v ...int64) {
	for _, n := range v {
		m.long(n, 8)
	}
}

func (m *maker) ints(v ...int64) {
	for _, n := range v {
		m.long(n, 4)
	}
}

func (m *maker) utf8(s string) {
	m.b = append(m.b, stringUTF8)
	m.ints(int64(len(s)))
	m.b = append(m.b, s...)
}

// event appends an event of a type.
func (m *maker) event(kind int64, fields func(*maker)) {
	body := &maker{compressed: m.compressed}
	body.longs(kind)
	fields(body)
	size := len(body.b) + 4
	if !m.compressed {
		m.ints(int64(size))
	} else { // four bytes, as Java writes it
		for i := range 3 {
			m.b = append(m.b, byte(size>>(7*i))|0x80)
		}
		m.b = append(m.b, byte(size>>21))
	}
	m.b = append(m.b, body.b...)
}

// node is an element of the metadata: name, attributes, children.
type node struct {
	name     string
	attrs    []string
	children []node
}

// types appends the event of the types.
func (m *maker) types(root node) {
	var texts []string
	index := func(s string) int64 {
		i := slices.Index(texts, s)
		if i < 0 {
			i = len(texts)
			texts = append(texts, s)
		}
		return int64(i)
	}
	tree := &maker{compressed: m.compressed}
	var write func(n node)
	write = func(n node) {
		tree.ints(index(n.name), int64(len(n.attrs)/2))
		for _, a := range n.attrs {
			tree.ints(index(a))
		}
		tree.ints(int64(len(n.children)))
		for _, c := range n.children {
			write(c)
		}
	}
	write(root)
	m.event(metadataEvent, func(m *maker) {
		m.longs(1, 0, 1)
		m.ints(int64(len(texts)))
		for _, s := range texts {
			m.utf8(s)
		}
		m.b = append(m.b, tree.b...)
	})
}

// chunk returns a chunk of the events.
func (m *maker) chunk() []byte {
	head := append([]byte(Magic), 0, 2, 0, 1)
	features := byte(0)
	if m.compressed {
		features = 1
	}
	for _, v := range []uint64{uint64(headerSize + len(m.b)), 0, 0, 1_000_000, 2_000_000, 0, 1000} {
		head = binary.BigEndian.AppendUint64(head, v)
	}
	return append(append(head, 0, 0, 0, features), m.b...)
}

// class returns a class, with fields "name type", "name type constantPool" and "name type []". A
// fourth word is the unit of a Timespan.
func classNode(id int, name string, fields ...string) node {
	n := node{name: "class", attrs: []string{"id", fmt.Sprint(id), "name", name}}
	for _, f := range fields {
		words := strings.Fields(f)
		attrs := []string{"name", words[0], "class", words[1]}
		if slices.Contains(words, "constantPool") {
			attrs = append(attrs, "constantPool", "true")
		}
		if slices.Contains(words, "[]") {
			attrs = append(attrs, "dimension", "1")
		}
		field := node{name: "field", attrs: attrs}
		if unit, ok := strings.CutPrefix(words[len(words)-1], "@"); ok {
			field.children = []node{{name: "annotation", attrs: []string{"class", "90", "value", unit}}}
		}
		n.children = append(n.children, field)
	}
	return n
}

// table: IDs of the types of made chunks
var madeTypes = []node{
	classNode(10, "boolean"), classNode(11, "int"), classNode(12, "long"),
	classNode(13, "java.lang.String"), classNode(14, "short"), classNode(15, "double"),
	classNode(16, "float"), classNode(90, "jdk.jfr.Timespan"),
	classNode(20, "jdk.types.Symbol", "string 13"),
	classNode(21, "java.lang.Class", "name 20 constantPool"),
	classNode(22, "jdk.types.Method", "type 21 constantPool", "name 20 constantPool", "modifiers 11"),
	classNode(23, "jdk.types.FrameType", "description 13"),
	classNode(24, "jdk.types.StackFrame", "method 22 constantPool", "lineNumber 11", "type 23 constantPool"),
	classNode(25, "jdk.types.StackTrace", "truncated 10", "frames 24 []"),
	classNode(26, "java.lang.Thread", "osName 13", "javaName 13", "javaThreadId 12"),
	classNode(30, "test.Event", "startTime 12", "duration 12 @TICKS", "few 14", "half 15", "third 16",
		"names 13 []", "eventThread 26 constantPool", "stackTrace 25 constantPool"),
	classNode(31, "jdk.DataLoss", "startTime 12", "amount 12", "total 12"),
}

// made returns a chunk with two events of one stack of two frames, and a loss of 77 bytes.
func made(compressed bool, name func(*maker)) []byte {
	m := &maker{compressed: compressed}
	m.types(node{name: "root", children: []node{{name: "metadata", children: madeTypes}}})
	event := func(m *maker) {
		m.longs(5, 2500)
		m.long(0xfffd, 2)
		m.b = binary.BigEndian.AppendUint64(m.b, 0x3fe0000000000000) // 0.5
		m.b = binary.BigEndian.AppendUint32(m.b, 0x40400000)         // 3
		m.ints(2)
		m.utf8("x")
		m.b = append(m.b, stringChars)
		m.ints(2)
		m.long('y', 2)
		m.long('z', 2)
		m.longs(7, 1<<62)
	}
	m.event(30, event)
	m.event(30, event)
	m.event(31, func(m *maker) { m.longs(5, 77, 1000) })
	m.event(checkpointEvent, func(m *maker) {
		m.longs(6, 0, 0)
		m.b = append(m.b, 1)
		m.ints(7)
		constant := func(kind, key int64, value func(*maker)) {
			m.longs(kind)
			m.ints(1)
			m.longs(key)
			value(m)
		}
		constant(13, 3, func(m *maker) { m.utf8("constant") })
		m.longs(20)
		m.ints(2)
		m.longs(1)
		name(m)
		m.longs(2)
		m.utf8("a/b/C")
		constant(21, 4, func(m *maker) { m.longs(2) })
		constant(22, 5, func(m *maker) { m.longs(4, 1); m.ints(9) })
		constant(23, 6, func(m *maker) { m.utf8("Inlined") })
		constant(25, 1<<62, func(m *maker) {
			m.b = append(m.b, 1)
			m.ints(2)
			for range 2 {
				m.longs(5)
				m.ints(12)
				m.longs(6)
			}
		})
		constant(26, 7, func(m *maker) {
			m.utf8("os")
			m.b = append(m.b, stringLatin1)
			m.ints(2)
			m.b = append(m.b, 'j', 0xe9)
			m.longs(8)
		})
	})
	return m.chunk()
}

// Integers are compressed or not, and strings have several encodings.
func TestEncodings(t *testing.T) {
	for _, compressed := range []bool{true, false} {
		for _, tt := range []struct {
			name string
			text func(*maker)
			want string
		}{
			{"UTF-8", func(m *maker) { m.utf8("rün") }, "rün"},
			{"constant", func(m *maker) { m.b = append(m.b, stringConstant); m.longs(3) }, "constant"},
			{"chars", func(m *maker) {
				m.b = append(m.b, stringChars)
				m.ints(3)
				for _, c := range []int64{'r', 0xd83d, 0xde00} {
					m.long(c, 2)
				}
			}, "r\U0001f600"},
			{"empty", func(m *maker) { m.b = append(m.b, stringEmpty) }, ""},
			{"null", func(m *maker) { m.b = append(m.b, stringNull) }, ""},
		} {
			t.Run(fmt.Sprint(tt.name, compressed), func(t *testing.T) {
				r, err := readAll(t, made(compressed, tt.text))
				if err != nil {
					t.Fatal(err)
				}
				frame := "a.b.C." + tt.want + " (inlined)"
				want := map[string]int{"test.Event;jé;" + frame + ";" + frame: 2}
				if !maps.Equal(r.stacks, want) {
					t.Errorf("got %v, want %v", r.stacks, want)
				}
				amounts := map[string]float64{"test.Event duration ns": 5e9, "test.Event few ": -6,
					"test.Event half ": 1, "test.Event third ": 6, "test.Event startTime ": 10}
				if !maps.Equal(r.amounts, amounts) {
					t.Errorf("got %v, want %v", r.amounts, amounts)
				}
				if r.file.Lost != 77 || r.file.Start != 1_000_000 || r.file.End != 3_000_000 {
					t.Errorf("%+v", r.file)
				}
			})
		}
	}
}

// A chunk without a size, whose program still runs, is read to the end of the file.
func TestOpenChunk(t *testing.T) {
	b := made(true, func(m *maker) { m.utf8("run") })
	binary.BigEndian.PutUint64(b[8:], 0)
	r, err := readAll(t, append(b, 0, 0, 0))
	if err != nil || r.samples["test.Event"] != 2 || !r.file.Cut || r.file.Unread != 3 {
		t.Errorf("%v, %+v, %v", r.samples, r.file, err)
	}
	_, err = readAll(t, append(b, recording(t)...))
	if err == nil || !strings.Contains(err.Error(), "jfr disassemble") {
		t.Errorf("%v", err)
	}
}

// Errors name the byte and what is wrong.
func TestErrors(t *testing.T) {
	self := &maker{compressed: true}
	self.types(node{name: "root", children: append(slices.Clone(madeTypes),
		classNode(40, "test.Self", "a 41", "b 41"), classNode(41, "test.Other", "c 40"))})
	wide := &maker{compressed: true}
	root := node{name: "root", children: []node{classNode(100, "long")}}
	for i := range 30 {
		root.children = append(root.children,
			classNode(101+i, fmt.Sprint("test.T", i), fmt.Sprint("a ", 100+i), fmt.Sprint("b ", 100+i)))
	}
	wide.types(root)
	old, long, gap := recording(t), recording(t), recording(t)
	old[5] = 1
	binary.BigEndian.PutUint64(long[8:], 1<<40)
	copy(gap[headerSize:], []byte{0, 0, 0, 0})
	empty := &maker{compressed: true}
	for _, tt := range []struct {
		name string
		in   []byte
		want string
	}{
		{"old", old, "format 1."},
		{"long", long, "a chunk of 1099511627776 bytes"},
		{"contains itself", self.chunk(), "contains itself"},
		{"grows", wide.chunk(), "more than 4096 values"},
		{"gap", gap, "byte 68"},
		{"nothing", empty.chunk(), "without the types"},
		{"other", []byte(strings.Repeat("no recording", 9)), "no chunk begins here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var wrong *Error
			_, err := readAll(t, tt.in)
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// Events that are not wanted are counted if they have a stack.
func TestOthers(t *testing.T) {
	r, err := readAll(t, recording(t), "jdk.ExecutionSample")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"jdk.ObjectAllocationSample": 61, "jdk.JavaMonitorEnter": 5,
		"jdk.ThreadSleep": 16}
	if !maps.Equal(r.others, want) || len(r.samples) != 1 {
		t.Errorf("%v, %v", r.others, r.samples)
	}
}
