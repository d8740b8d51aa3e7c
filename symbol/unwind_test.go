package symbol

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
)

// FuzzUnwind: whatever the bytes are, rows come in order, and name rules that there are.
func FuzzUnwind(f *testing.F) {
	for _, name := range []string{"/bin/true", "/lib/x86_64-linux-gnu/libc.so.6"} {
		if b, addr := sectionOf(name, ".eh_frame"); b != nil {
			f.Add(b[:min(len(b), 1<<12)], addr, false)
		}
	}
	f.Add(memoryOfVDSO(), uint64(0), true)
	heapbound.Fuzz(f, func(t *testing.T, b []byte, addr uint64, debug bool) {
		table, _ := parseUnwind(b, addr, debug)
		for i, r := range table.Rows {
			if int(r.Rule) >= len(table.Rules) {
				t.Fatalf("row %d has rule %d of %d", i, r.Rule, len(table.Rules))
			}
			if i > 0 && r.PC <= table.Rows[i-1].PC {
				t.Fatalf("row %d is out of order: %+v", i, table.Rows)
			}
		}
		if table.Rules[0] != (UnwindRule{}) {
			t.Fatal("the first rule is one")
		}
		table.Find(addr)
	})
}

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

// TestUnwindAsBinutils: the rules of the programs and libraries here are those that binutils makes
// of them, at each row of theirs.
func TestUnwindAsBinutils(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	if _, err := exec.LookPath("readelf"); err != nil {
		t.Skip("needs: tool readelf")
	}
	tried, rows := 0, 0
	for _, name := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2",
		"/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/bin/bash"} {
		b, addr := sectionOf(name, ".eh_frame")
		if b == nil {
			continue
		}
		table, err := parseUnwind(b, addr, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		tried++
		rows += compareWithReadelf(t, name, table)
	}
	if tried == 0 {
		t.Skip("needs: tool ld.so (a C library for x86-64)")
	}
	t.Logf("%d rows of %d files", rows, tried)
}

// compareWithReadelf reads what readelf --debug-dump=frames-interp prints of a file:
//
//	00000088 0000000000000044 0000008c FDE cie=00000000 pc=0000000000001230..0000000000001295
//	   LOC           CFA      rbx   rbp   ra
//	0000000000001230 rsp+8    u     u     c-8
func compareWithReadelf(t *testing.T, name string, table *UnwindTable) (rows int) {
	cmd := exec.Command("readelf", "--debug-dump=frames-interp", "-W", name)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var columns []string
	wrong, end := 0, uint64(0)
	var last uint64 // a location that is printed twice counts as it is the second time
	var pending func()
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := in.Text()
		words := strings.Fields(line)
		switch {
		case strings.Contains(line, " FDE ") || strings.Contains(line, " CIE ") || len(words) == 0:
			if pending != nil {
				pending()
				pending = nil
			}
			columns = nil
			if _, pcs, ok := strings.Cut(line, "pc="); ok {
				_, to, _ := strings.Cut(pcs, "..")
				end, _ = strconv.ParseUint(to, 16, 64)
				if strings.Contains(line, "pc=0000000000000000..") {
					end = 0
				}
			} else if len(words) > 0 {
				end = 0 // a CIE
			}
		case words[0] == "LOC":
			columns = words
		case columns != nil && end > 0:
			loc, err := strconv.ParseUint(words[0], 16, 64)
			if err != nil || loc >= end || len(words) != len(columns) {
				continue
			}
			if pending != nil && loc != last {
				pending()
			}
			last = loc
			of := map[string]string{}
			for i, c := range columns {
				of[c] = words[i]
			}
			pending = func() {
				rows++
				if got := table.Find(loc); !agrees(got, of) && wrong < 5 {
					wrong++
					t.Errorf("%s: at %#x: %+v, and binutils has %v", name, loc, got, of)
				}
			}
		}
	}
	if pending != nil {
		pending()
	}
	if err := cmd.Wait(); err != nil {
		t.Logf("readelf: %v", err) // it complains of parts that it does not know, and goes on
	}
	if rows == 0 {
		t.Errorf("%s: readelf prints no rows", name)
	}
	return rows
}

// agrees holds a rule against a row of readelf, whose "exp" is any expression.
func agrees(r UnwindRule, of map[string]string) bool {
	if ra := of["ra"]; ra == "u" {
		return r.CFA == CFAEnd
	} else if ra == "exp" {
		return r.CFA == CFASignal || r.CFA == CFAOther
	}
	at := func(base string, off int32) string { return base + strconv.FormatInt(int64(off)+0, 10) }
	plus := func(base string, off int32) string {
		if off >= 0 {
			return base + "+" + strconv.Itoa(int(off))
		}
		return at(base, off)
	}
	switch cfa := of["CFA"]; {
	case r.CFA == CFASP:
		if cfa != plus("rsp", r.Offset) {
			return false
		}
	case r.CFA == CFABP:
		if cfa != plus("rbp", r.Offset) {
			return false
		}
	case r.CFA == CFAPLT, r.CFA == CFAAtBP, r.CFA == CFAAtSP:
		if cfa != "exp" {
			return false
		}
	case r.CFA == CFAOther:
		return cfa == "exp" || !strings.HasPrefix(cfa, "rsp") && !strings.HasPrefix(cfa, "rbp")
	default:
		return false
	}
	switch bp := of["rbp"]; bp {
	case "", "u", "s": // readelf prints u also where nothing is said
		return r.BP == BPSame || bp == "u" && r.BP == BPLost
	case "exp":
		return r.BP == BPAtBP || r.BP == BPLost
	default:
		return r.BP == BPAtCFA && bp == plus("c", r.BPOffset)
	}
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
	err := h.unwind(false, newUnwindBuffers(), func(pc uint32, rule UnwindRule) error {
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
	rule UnwindRule
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
		twice, err := parseUnwind(b, addr, false)
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
		w := newWindow(2)
		w.over(bytes.NewReader(b), 0, uint64(len(b)), nil)
		var reader *frameReader
		reader = newFrameReader(w, addr, false, func(r UnwindRow) error {
			got = append(got, ruled{r.PC, reader.rules[r.Rule]})
			return nil
		})
		head := h.frameHeader(newWindow(1), addr, uint64(len(b)))
		if head == nil {
			t.Fatalf("%s: its header is not understood", name)
		}
		if err := reader.read(head); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d rows through two pages, %d at once: %v", name, len(got), len(want),
				err)
		}
		if len(w.pages) > 2 {
			t.Errorf("%d pages are kept", len(w.pages))
		}
		if h.frameHeader(newWindow(1), addr+8, uint64(len(b))) != nil {
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
				func(uint32, UnwindRule) error { rows++; return nil }); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(rows), "rows")
		}
	})
	b.Run("twice", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table, err := parseUnwind(text, addr, false)
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
