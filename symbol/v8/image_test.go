package v8

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"culprit/symbol/interp"
)

// An image is memory of a process of Node.js: what a Reader has read for some functions.
//
//	layout NUMBERS
//	name ADDRESS INSTRUCTION FIRST LINE "FUNCTION" "FILE"
//	at ADDRESS BYTES
type image struct {
	layout *Layout
	names  []imageName
	at     []uint64
	bytes  [][]byte
}

// An imageName is a frame of an image and its name.
type imageName struct {
	frame interp.Frame
	want  interp.Name
}

// ReadAt implements io.ReaderAt.
func (m *image) ReadAt(b []byte, at int64) (int, error) {
	i := sort.Search(len(m.at), func(i int) bool { return m.at[i] > uint64(at) })
	for i--; i >= 0; i-- {
		from := uint64(at) - m.at[i]
		if from < uint64(len(m.bytes[i])) && uint64(len(b)) <= uint64(len(m.bytes[i]))-from {
			return copy(b, m.bytes[i][from:]), nil
		}
		if from > 1<<16 {
			break
		}
	}
	return 0, errors.New("not mapped")
}

// images returns the images by version.
func images(t testing.TB) map[string]*image {
	t.Helper()
	paths, err := filepath.Glob("testdata/node*.txt")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%d images, %v", len(paths), err)
	}
	out := map[string]*image{}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		m := &image{}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			m.add(t, lines.Text())
		}
		f.Close() //nolint:errcheck // it was read
		if m.layout == nil {
			t.Fatalf("%s has no layout", path)
		}
		out[strings.TrimSuffix(filepath.Base(path), ".txt")] = m
	}
	return out
}

// add adds a line of an image.
func (m *image) add(t testing.TB, text string) {
	t.Helper()
	kind, rest, _ := strings.Cut(text, " ")
	switch kind {
	case "layout":
		var numbers []uint64
		for _, one := range strings.Fields(rest) {
			var n uint64
			if _, err := fmt.Sscan(one, &n); err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, n)
		}
		m.layout = fromNumbers(numbers)
	case "name":
		var at, instruction uint64
		var n interp.Name
		if _, err := fmt.Sscanf(rest, "%x %d %d %d %q %q", &at, &instruction, &n.First, &n.Line,
			&n.Function, &n.File); err != nil {
			t.Fatal(err)
		}
		m.names = append(m.names, imageName{interp.Frame{Word: interp.NewWord(at, instruction)}, n})
	case "at":
		var at uint64
		var text string
		if _, err := fmt.Sscanf(rest, "%x %s", &at, &text); err != nil {
			t.Fatal(err)
		}
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		m.at, m.bytes = append(m.at, at), append(m.bytes, b)
	}
}

// Functions in the memory of processes of Node.js have the names, files and lines of the program.
func TestNamesOfImages(t *testing.T) {
	const file = "/srv/program/functions.js"
	want := map[string]int{"Outer": 1, "begin": 1, "method": 2, "#secret": 3, "get prop": 3, "größe": 4,
		"名前": 5, "list": 8, "outside.inside": 9, "arrow": 10, "generator": 15, "later": 16,
		"captured": 18, "many": 18, "thrown": 19, "all": 20}
	for version, m := range images(t) {
		t.Run(version, func(t *testing.T) {
			r, got := m.layout.NewReader(m), map[string]int{}
			for _, one := range m.names {
				n := r.Name(one.frame)
				if n != one.want {
					t.Errorf("%x is %+v, want %+v", one.frame.Word, n, one.want)
				}
				if n.File == file {
					got[n.Function] = n.First
				}
				known := one.frame.Word.Instruction() != interp.UnknownInstruction
				if known != (n.Line != 0) {
					t.Errorf("%s runs line %d", n.Function, n.Line)
				}
			}
			for name, line := range want {
				if got[name] != line {
					t.Errorf("%s is on line %d, want %d", name, got[name], line)
				}
			}
			if _, ok := got[anonymous]; !ok {
				t.Error("the program has no name")
			}
		})
	}
}

// A function that is replaced by another one while it is read has the name of one of them, or none.
func TestHeapThatMoves(t *testing.T) {
	for version, m := range images(t) {
		t.Run(version, func(t *testing.T) {
			names := map[string]int{}
			first, second := m.names[6], m.names[8] // two functions of the program
			from, to := first.frame.Word.Code(), second.frame.Word.Code()
			if first.want == second.want {
				t.Fatal("both are the same")
			}
			for reads := range 400 {
				moved := &moving{image: m, from: from, to: to, reads: reads}
				names[m.layout.NewReader(moved).Name(first.frame).Function]++
			}
			for name := range names {
				if name != first.want.Function && name != second.want.Function && name != "" {
					t.Errorf("there is a function %s", name)
				}
			}
			for _, name := range [...]string{first.want.Function, second.want.Function, ""} {
				if names[name] == 0 {
					t.Errorf("it never has the name %q: %v", name, names)
				}
			}
		})
	}
}

// moving is memory in which an object has the words of another one after some reads.
type moving struct {
	*image
	from, to uint64
	reads    int
}

// ReadAt implements io.ReaderAt.
func (m *moving) ReadAt(b []byte, at int64) (int, error) {
	if m.reads--; m.reads < 0 && uint64(at)-m.from < 64 {
		at += int64(m.to - m.from)
	}
	return m.image.ReadAt(b, at)
}
