package symbol

import (
	"debug/elf"
	"os"
	"runtime"
	"slices"
	"testing"

	"culprit/heapbound"
	"culprit/symbol/instruction"
	"culprit/symbol/unwind"
)

// codeOf returns the executable sections of a file that hold functions.
func codeOf(t *testing.T, h *header) (out []section) {
	t.Helper()
	for _, s := range h.secs {
		if s.kind == uint32(elf.SHT_PROGBITS) && s.flags&uint64(elf.SHF_EXECINSTR) != 0 &&
			h.nameOf(&s) == ".text" {
			out = append(out, s)
		}
	}
	return out
}

// TestCodeAsUnwindTables: where the code of a program is read without its unwind table, what is
// found agrees with the table: nearly no rule is another one. Files of C alone: nothing but a table
// leads to the handlers of exceptions. Stripped files have many places that two functions may
// share; those have no rule.
func TestCodeAsUnwindTables(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	tried := 0
	for _, name := range []string{"/lib/x86_64-linux-gnu/libc.so.6", "/bin/bash", "/usr/bin/perl",
		"/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"} {
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
		table, err := unwind.Parse(b, addr, false)
		if err != nil || b == nil {
			continue
		}
		tried++
		for _, symbols := range []bool{true, false} {
			none, same, wrong := compareWithTable(t, h, table, symbols)
			all := none + same + wrong
			t.Logf("%s: symbols %t: %d instructions: %.2f %% have the same rule, %.2f %% none, "+
				"%.3f %% another one", name, symbols, all,
				100*float64(same)/float64(all), 100*float64(none)/float64(all),
				100*float64(wrong)/float64(all))
			if float64(wrong) > 0.002*float64(all) || float64(none) > 0.7*float64(all) {
				t.Errorf("%s: of %d instructions %d have no rule, %d another one", name, all, none,
					wrong)
			}
		}
	}
	if tried == 0 {
		t.Skip("needs: tool ld.so (a C library for x86-64)")
	}
}

// compareWithTable counts the instructions of a file by what its code shows of them.
func compareWithTable(t *testing.T, h *header, table *unwind.Table, symbols bool) (none, same,
	wrong int) {
	t.Helper()
	for _, s := range codeOf(t, h) {
		text, err := h.read(s.off, s.size)
		if err != nil {
			t.Fatal(err)
		}
		var starts []uint32
		if symbols {
			g := gapRows{h: h}
			g.readStarts()
			starts = slices.Clone(within(g.starts, s.addr, s.addr+s.size))
			for i := range starts {
				starts[i] -= uint32(s.addr)
			}
		}
		r := readCode(text, s.addr, starts, nil, symbols && h.full(), h.entry)
		for i, n := range r.at {
			if n == stateInner {
				continue
			}
			want := table.Find(s.addr + uint64(i))
			if want.CFA != unwind.CFASP && want.CFA != unwind.CFABP {
				continue
			}
			if n == stateNone {
				if instruction.LengthAMD64(text[i:min(len(text), i+15)]) == 0 {
					continue
				}
				none++
				continue
			}
			got := r.states[n].rule()
			if got == (unwind.Rule{}) {
				none++
				continue
			}
			// Where both rules find the caller, a compiler writes one of them.
			st := r.states[n]
			if want.CFA == unwind.CFASP && st.sp == want.Offset || want.CFA == unwind.CFABP &&
				st.fp == want.Offset || want.CFA == unwind.CFABP && got.CFA == unwind.CFASP ||
				want.CFA == unwind.CFASP && st.sp == 0 {
				same++
				continue
			}
			if wrong++; wrong < 4 {
				t.Logf("%#x: %+v, table %+v, state %+v", s.addr+uint64(i), got, want, st)
			}
		}
	}
	return none, same, wrong
}

// TestStackStates: what single instructions and short functions do to the stack, with and without a
// frame.
func TestStackStates(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("needs: kernel feature x86-64")
	}
	sp := func(n int32) unwind.Rule { return unwind.Rule{CFA: unwind.CFASP, Offset: n} }
	saved := func(r unwind.Rule, at int32) unwind.Rule {
		r.BP, r.BPOffset = unwind.BPAtCFA, -at
		return r
	}
	frame := saved(unwind.Rule{CFA: unwind.CFABP, Offset: 16}, 16)
	for _, tt := range []struct {
		name string
		code string
		want []unwind.Rule // of each instruction
	}{
		{"leaf", "\x89\xf8\xc3", []unwind.Rule{sp(8), sp(8)}},
		{"frame", "\x55\x48\x89\xe5\x90\x5d\xc3",
			[]unwind.Rule{sp(8), saved(sp(16), 16), frame, frame, sp(8)}},
		{"frame after endbr64, leave", "\xf3\x0f\x1e\xfa\x55\x48\x8b\xec\x48\x83\xec\x20\xc9\xc3",
			[]unwind.Rule{sp(8), sp(8), saved(sp(16), 16), frame, frame, sp(8)}},
		{"pushes and a frame", "\x41\x57\x53\x48\x83\xec\x18\x48\x83\xc4\x18\x5b\x41\x5f\xc3",
			[]unwind.Rule{sp(8), sp(16), sp(24), sp(48), sp(24), sp(16), sp(8)}},
		{"large frame", "\x48\x81\xec\x00\x10\x00\x00\x48\x81\xc4\x00\x10\x00\x00\xc3",
			[]unwind.Rule{sp(8), sp(8 + 4096), sp(8)}},
		{"aligned stack with a frame", "\x55\x48\x89\xe5\x48\x83\xe4\xe0\x90\xc9\xc3",
			[]unwind.Rule{sp(8), saved(sp(16), 16), frame, frame, frame, sp(8)}},
		{"aligned stack without a frame", "\x48\x83\xe4\xe0\x90\xc3", []unwind.Rule{sp(8), {}, {}}},
		{"stack pointer from memory", "\x48\x8b\x67\x08\xc3", []unwind.Rule{sp(8), {}}},
		{"frame pointer for a value, saved", "\x55\x48\x89\xfd\x5d\xc3",
			[]unwind.Rule{sp(8), saved(sp(16), 16), saved(sp(16), 16), sp(8)}},
		{"frame pointer for a value, lost", "\x48\x89\xfd\xc3",
			[]unwind.Rule{sp(8), {CFA: unwind.CFASP, Offset: 8, BP: unwind.BPLost}}},
		{"branch with one state", "\x85\xff\x74\x01\x90\xc3",
			[]unwind.Rule{sp(8), sp(8), sp(8), sp(8)}},
		{"branch with two states", "\x85\xff\x74\x01\x50\x90\xc3",
			[]unwind.Rule{sp(8), sp(8), sp(8), {}, {}}},
		{"early return", "\x53\x74\x02\x5b\xc3\x90\x5b\xc3",
			[]unwind.Rule{sp(8), sp(16), sp(16), sp(8), sp(16), sp(16), sp(8)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := readCode([]byte(tt.code), 0x1000, []uint32{0}, nil, true, 0)
			var got []unwind.Rule
			for _, n := range r.at {
				if n != stateInner {
					got = append(got, r.states[n].rule())
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("% x: %+v, want %+v", tt.code, got, tt.want)
			}
		})
	}
}

// FuzzReadCode: whatever the bytes are, the work is bounded by their number, and rows come in
// order.
func FuzzReadCode(f *testing.F) {
	for _, name := range []string{"/bin/true", "/lib64/ld-linux-x86-64.so.2"} {
		if b, addr := sectionOf(name, ".text"); b != nil {
			f.Add(b[:min(len(b), 1<<12)], addr, uint16(0), false)
		}
	}
	f.Add([]byte("\x55\x48\x89\xe5\x74\xfb\x50\xeb\xf8"), uint64(0x1000), uint16(3), true)
	heapbound.Fuzz(f, func(t *testing.T, b []byte, base uint64, start uint16, whole bool) {
		var r *codeReader
		heapBound(t, len(b), func() {
			r = readCode(b, base&(1<<32-1), []uint32{uint32(start)}, []uint32{uint32(start) / 2},
				whole, base+1)
			hasFrame(b, uint64(start), whole)
		})
		if r.steps > 8*len(b) {
			t.Fatalf("%d instructions were read of %d bytes", r.steps, len(b))
		}
		last := int64(-1)
		err := r.rows(func(at uint32, rule unwind.Rule) error {
			if int64(at) <= last || int(at) >= len(b) {
				t.Fatalf("row at %d behind %d of %d bytes", at, last, len(b))
			}
			if rule.CFA != unwind.CFANone && rule.CFA != unwind.CFAEnd && rule.Offset < 8 {
				t.Fatalf("rule %+v", rule)
			}
			last = int64(at)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
