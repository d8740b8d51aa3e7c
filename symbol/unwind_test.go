package symbol

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/symbol/unwind"
	"culprit/symbol/window"
)

// FuzzUnwindFile: no file takes the reader with it.
func FuzzUnwindFile(f *testing.F) {
	f.Add(memoryOfVDSO())
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		var of *unwound
		heapBound(t, len(b), func() { of = NewUnwinding(kernel.Root{}, nil, nil).inMemory(b) })
		if of.table != nil && len(of.table.Rows) == 0 {
			t.Fatal("a table without rows")
		}
	})
}

// sectionOf reads a section of a file; nil: there is no such file, or section.
func sectionOf(file, name string) ([]byte, uint64) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0
	}
	h, err := readHeader(f, st.Size())
	if err != nil {
		return nil, 0
	}
	for i := range h.secs {
		if s := &h.secs[i]; h.nameOf(s) == name {
			if b, err := h.read(s.off, s.size); err == nil {
				return b, s.addr
			}
		}
	}
	return nil, 0
}

// TestUnwindWithoutSections: the table of a file that has lost its sections is found by its header,
// and is the same.
func TestUnwindWithoutSections(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	h, err := headerOf(t, memoryOfVDSO())
	if err != nil {
		t.Fatal(err)
	}
	want := rowsOf(t, h)
	if len(want) == 0 {
		t.Fatal("no rows")
	}
	h.secs = nil
	got := rowsOf(t, h)
	if !slices.Equal(got, want) {
		t.Fatalf("%v, with sections %v", got, want)
	}
}

// rowsOf returns the rows of a file with their rules.
func rowsOf(t *testing.T, h *header) (rows []ruled) {
	t.Helper()
	err := h.unwind(false, newUnwindBuffers(), func(pc uint32, rule unwind.Rule) error {
		rows = append(rows, ruled{pc, rule})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

type ruled struct {
	pc   uint32
	rule unwind.Rule
}

// TestUnwindByHeader: a section that is read in the order of its header has the same rows as one
// that is read twice, also with few pages in memory. Rows that a header does not list are left out.
func TestUnwindByHeader(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	tried := 0
	for _, name := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/bin/bash", "/usr/bin/python3"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		h, err := readHeader(f, st.Size())
		if err != nil {
			t.Fatal(err)
		}
		b, addr := sectionOf(name, ".eh_frame")
		if b == nil {
			continue
		}
		tried++
		twice, err := unwind.Parse(b, addr, false)
		if err != nil {
			t.Fatal(err)
		}
		var want []ruled
		for _, r := range twice.Rows {
			want = append(want, ruled{r.PC, twice.Rules[r.Rule]})
		}
		if got := rowsOf(t, h); !slices.Equal(got, want) {
			t.Errorf("%s: %d rows by the header, %d without it", name, len(got), len(want))
		}
		var got []ruled
		w := window.New(2)
		w.Over(bytes.NewReader(b), 0, uint64(len(b)), nil)
		var reader *unwind.Reader
		reader = unwind.NewReader(w, addr, false, func(r unwind.Row) error {
			got = append(got, ruled{r.PC, reader.Rule(r)})
			return nil
		})
		head := h.frameHeader(window.New(1), addr, uint64(len(b)))
		if head == nil {
			t.Fatalf("%s: its header is not understood", name)
		}
		if err := reader.Read(head); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d rows through two pages, %d at once: %v", name, len(got), len(want),
				err)
		}
		if h.frameHeader(window.New(1), addr+8, uint64(len(b))) != nil {
			t.Errorf("%s: a header of another section is taken", name)
		}
	}
	if tried == 0 {
		t.Skip("needs: tool ld.so (a C library for x86-64)")
	}
}

// TestUnwindingExecuted: what this process executes is known: a program of Go, which has frame
// pointers and a table of where they don't hold, and the vDSO, which has a table.
func TestUnwindingExecuted(t *testing.T) {
	u := NewUnwinding(kernel.Root{}, nil, nil)
	all, err := u.Executed(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	byPointer, tables := 0, 0
	for i, c := range all {
		if c.End <= c.Start || i > 0 && c.Start < all[i-1].End {
			t.Errorf("%+v", all)
		}
		if c.Table != nil && !c.Pointers {
			tables++
		} else if c.Pointers && (c.Table != nil || runtime.GOARCH != "amd64") ||
			c.Why == ByPointer {
			byPointer++
		}
	}
	if byPointer == 0 {
		t.Errorf("a program of Go is none: %+v", all)
	}
	if runtime.GOARCH == "amd64" && tables == 0 {
		t.Errorf("no table for the vDSO: %+v", all)
	}
}

func BenchmarkUnwindTable(b *testing.B) {
	const name = "/lib/x86_64-linux-gnu/libc.so.6"
	text, addr := sectionOf(name, ".eh_frame")
	if text == nil {
		b.Skip("needs: tool ld.so (a C library for x86-64)")
	}
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.Run("header", func(b *testing.B) {
		buffers := newUnwindBuffers()
		b.ReportAllocs()
		for b.Loop() {
			h, err := readHeader(f, st.Size())
			if err != nil {
				b.Fatal(err)
			}
			rows := 0
			if err := h.unwind(false, buffers,
				func(uint32, unwind.Rule) error { rows++; return nil }); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(rows), "rows")
		}
	})
	b.Run("twice", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table, err := unwind.Parse(text, addr, false)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(table.Rows)), "rows")
		}
	})
}

func headerOf(t *testing.T, b []byte) (*header, error) {
	t.Helper()
	if b == nil {
		t.Skip("needs: kernel feature vDSO")
	}
	return readHeader(bytes.NewReader(b), int64(len(b)))
}
