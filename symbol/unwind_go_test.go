package symbol

import (
	"debug/elf"
	"os"
	"runtime"
	"strings"
	"testing"
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
	table := &UnwindTable{}
	err = keepRows(table, func(row func(uint32, UnwindRule) error) error {
		last := uint32(0)
		return h.goRows(func(pc uint32, rule UnwindRule) error {
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
	symbols, err := file.Symbols()
	if err != nil {
		t.Skip("needs: tool go (a test program with symbols)")
	}
	const push, movSPtoBP, pop, ret = "\x55", "\x48\x89\xe5", "\x5d", "\xc3"
	checked := 0
	for _, s := range symbols {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Size < 8 || s.Value < text.Addr ||
			s.Value+s.Size > text.Addr+text.Size || strings.HasPrefix(s.Name, "runtime.") {
			continue
		}
		of := string(code[s.Value-text.Addr:][:s.Size])
		at := strings.Index(of, push+movSPtoBP)
		if at < 0 || at > 32 { // at most a check for space of the stack comes before
			continue
		}
		checked++
		pc := s.Value + uint64(at)
		for add, want := range map[uint64]UnwindRule{0: goNoFrame, 1: goPushed} {
			if got := table.Find(pc + add); got != want {
				t.Errorf("%s+%#x: %+v, want %+v", s.Name, pc+add-s.Value, got, want)
			}
		}
		if got := table.Find(s.Value); got != goNoFrame {
			t.Errorf("%s: %+v", s.Name, got)
		}
		if end := strings.TrimRight(of, "\xcc"); strings.HasSuffix(end, pop+ret) {
			pc := s.Value + uint64(len(end)) - 1
			if got := table.Find(pc); got != goNoFrame {
				t.Errorf("%s at its return: %+v", s.Name, got)
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
	f.Fuzz(func(t *testing.T, table []byte, size uint64) {
		start, last := uint64(1000), uint64(0)
		end := start + size%(1<<20)
		if err := goFunction(table, start, end, func(pc uint64, _ UnwindRule) error {
			if pc < start || pc >= end || pc <= last {
				t.Fatalf("row at %d of %d to %d, behind %d", pc, start, end, last)
			}
			last = pc
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}
