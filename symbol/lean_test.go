package symbol

import (
	"bytes"
	"debug/elf"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
)

// TestLeanAgrees: a scan of a file for a few addresses finds the same names as the sorted symbols.
func TestLeanAgrees(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	files := []string{own}
	for _, name := range []string{"go", "sh", "gcc", "perl", "python3"} {
		if path, err := exec.LookPath(name); err == nil {
			files = append(files, path)
		}
	}
	for _, pattern := range []string{"/lib/*/libc.so.6", "/lib64/libc.so.6",
		"/usr/lib/*/libstdc++.so.6", "/lib/ld-musl-*"} {
		more, _ := filepath.Glob(pattern)
		files = append(files, more...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		h, err := readHeader(f, info.Size())
		if err != nil {
			continue // a script
		}
		whole := &object{}
		if err := whole.readSymbols(h); err != nil {
			t.Fatal(err)
		}
		var addrs []uint64
		for _, s := range h.secs {
			if s.flags&uint64(elf.SHF_EXECINSTR) == 0 || s.size == 0 {
				continue
			}
			for range 2000 {
				addrs = append(addrs, s.addr+random.Uint64N(s.size))
			}
		}
		for range min(len(whole.syms), 2000) {
			s := whole.syms[random.IntN(len(whole.syms))]
			addrs = append(addrs, s.addr, s.addr+s.size, s.addr+s.size-1)
		}
		slices.Sort(addrs)
		addrs = slices.Compact(addrs)
		got := map[uint64]learned{}
		if h.full() {
			err = h.scan(uint32(elf.SHT_SYMTAB), addrs, got)
		} else {
			g := h.goTable()
			var rest []uint64
			for _, a := range addrs {
				if l, ok := g.find(a); ok {
					got[a] = l
				} else {
					rest = append(rest, a)
				}
			}
			err = h.scan(uint32(elf.SHT_DYNSYM), rest, got)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		wrong, named := 0, 0
		for _, a := range addrs {
			name, from, ok := whole.find(a)
			l := got[a]
			if ok {
				named++
			}
			if ok && name == "" {
				continue
			}
			if ok != (l.name != "") || l.name != name || l.from != from {
				if wrong++; wrong < 5 {
					t.Errorf("%s: %#x is %s+%#x, and lean %s+%#x", path, a, name, from, l.name,
						l.from)
				}
			}
		}
		t.Logf("%s: %d of %d addresses have names, %d differ", path, named, len(addrs), wrong)
	}
}

// TestLeanProcess: places of this very program, learned and then asked for.
func TestLeanProcess(t *testing.T) {
	full, lean := NewProcesses(kernel.Root{}), NewProcesses(kernel.Root{})
	lean.DisableSymbolCache()
	var pcs []uint64
	for _, s := range []any{TestLeanProcess, NewProcesses, readHeader} {
		pcs = append(pcs, uint64(reflect.ValueOf(s).Pointer())+9)
	}
	pid := os.Getpid()
	want := full.Stack(pid, pcs)
	for i, p := range lean.Stack(pid, pcs) {
		if p.Name != "" || p.Module != want[i].Module {
			t.Errorf("nothing was learned, and it is %v, want only the module of %v", p, want[i])
		}
	}
	lean.Learn([]Asked{{pid, pcs}, {1 << 30, pcs}})
	if got := lean.Stack(pid, pcs); !slices.Equal(got, want) || got[0].Name == "" {
		t.Errorf("learned %v, want %v", got, want)
	}
}

// FuzzLean: whatever a file is, reading it through ends.
func FuzzLean(f *testing.F) {
	own, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own[:min(len(own), 4096)], uint64(0x401000))
	heapbound.Fuzz(f, func(t *testing.T, data []byte, addr uint64) {
		h, err := readHeader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		into := map[uint64]learned{}
		heapBound(t, len(data), func() {
			_ = h.scan(uint32(elf.SHT_SYMTAB), []uint64{addr, addr | 1<<63}, into)
			h.goTable().find(addr)
			_ = h.learn(nil, []uint64{addr, addr | 1<<63}, into)
		})
	})
}
