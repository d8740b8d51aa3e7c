package symbol

import (
	"bytes"
	"cmp"
	"debug/elf"
	"os"
	"runtime"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/symbol/unwind"
	"culprit/symbol/window"
)

// TestGoRows: in each function of this program that begins by saving the frame pointer, the table
// says where the caller is before and behind that instruction, and before the return that follows
// its counterpart; and nothing in between.
func TestGoRows(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	h, err := readHeader(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	table := &unwind.Table{}
	err = keepRows(table, func(row func(uint32, unwind.Rule) error) error {
		last := uint32(0)
		return h.goRows(func(pc uint32, rule unwind.Rule) error {
			if pc <= last {
				t.Fatalf("row of %#x behind that of %#x", pc, last)
			}
			last = pc
			return row(pc, rule)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	file, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	text := file.Section(".text")
	code, err := text.Data()
	if err != nil {
		t.Fatal(err)
	}
	functions := &object{}
	if err := functions.readGo(h); err != nil { // go test leaves out all other symbols
		t.Fatal(err)
	}
	const push, movSPtoBP, pop, ret = "\x55", "\x48\x89\xe5", "\x5d", "\xc3"
	checked := 0
	for _, s := range functions.syms {
		name := functions.name(s.name)
		if s.size < 8 || s.addr < text.Addr || s.addr+s.size > text.Addr+text.Size ||
			strings.HasPrefix(name, "runtime.") {
			continue
		}
		if name == "time.now" { // it changes to another stack
			continue
		}
		of := string(code[s.addr-text.Addr:][:s.size])
		at := strings.Index(of, push+movSPtoBP)
		if at < 0 || at > 32 { // at most a check for space of the stack comes before
			continue
		}
		checked++
		pc := s.addr + uint64(at)
		for add, want := range map[uint64]unwind.Rule{0: goNoFrame, 1: goPushed} {
			if got := table.Find(pc + add); got != want {
				t.Errorf("%s+%#x: %+v, want %+v", name, pc+add-s.addr, got, want)
			}
		}
		if got := table.Find(s.addr); got != goNoFrame {
			t.Errorf("%s: %+v", name, got)
		}
		end := of
		for strings.HasSuffix(end, "\xcc") { // padding
			end = end[:len(end)-1]
		}
		if strings.HasSuffix(end, pop+ret) {
			pc := s.addr + uint64(len(end)) - 1
			if got := table.Find(pc); got != goNoFrame {
				t.Errorf("%s at its return: %+v", name, got)
			}
		}
	}
	if checked < 500 {
		t.Errorf("%d functions were checked", checked)
	}
}

// FuzzGoFunction: any table of a function makes rows in order, within the function.
func FuzzGoFunction(f *testing.F) {
	f.Add([]byte{2, 1, 16, 4, 15, 1, 0}, uint64(16))
	heapbound.Fuzz(f, func(t *testing.T, table []byte, size uint64) {
		start, last := uint64(1000), uint64(0)
		end := start + size%(1<<20)
		s := goSteps{w: window.New(2), last: unwind.Rule{CFA: unwind.CFAOther},
			row: func(pc uint32, _ unwind.Rule) error {
				if uint64(pc) < start || uint64(pc) >= end || uint64(pc) <= last {
					t.Fatalf("row at %d of %d to %d, behind %d", pc, start, end, last)
				}
				last = uint64(pc)
				return nil
			}}
		file := append([]byte{0}, table...) // steps at 0 are none
		s.w.Over(bytes.NewReader(file), 0, uint64(len(file)), nil)
		if err := s.function(1, start, end); err != nil {
			t.Fatal(err)
		}
	})
}

// BenchmarkGoRows reads the table of a program of 36 MB, given by GOROWS, or of this one.
func BenchmarkGoRows(b *testing.B) {
	name := cmp.Or(os.Getenv("GOROWS"), "/proc/self/exe")
	f, err := os.Open(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	h, err := readHeader(f, info.Size())
	if err != nil {
		b.Fatal(err)
	}
	rows := 0
	b.ReportAllocs()
	for b.Loop() {
		rows = 0
		if err := h.goRows(func(uint32, unwind.Rule) error { rows++; return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows), "rows")
}
