package symbol

import (
	"bytes"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"culprit/heapbound"
)

const maps = `55d0c8a00000-55d0c8a02000 r--p 00000000 fd:01 131                        /usr/bin/bash
55d0c8a02000-55d0c8a4e000 r-xp 00002000 fd:01 131                        /usr/bin/bash
7f2c5c000000-7f2c5c021000 rwxp 00000000 00:00 0
7f2c5d000000-7f2c5d001000 r-xp 00000000 fd:01 9 /tmp/a b\012c (deleted)
7ffd1c1e3000-7ffd1c1e5000 r-xp 00000000 00:00 0                          [vdso]
rubbish
1-2 r-xp zz fd:01 9 /x
`

func TestParseMaps(t *testing.T) {
	got, bad := ParseMaps([]byte(maps))
	want := []Mapping{
		{0x55d0c8a00000, 0x55d0c8a02000, 0, false, 0xfd01, 131, "/usr/bin/bash", false},
		{0x55d0c8a02000, 0x55d0c8a4e000, 0x2000, true, 0xfd01, 131, "/usr/bin/bash", false},
		{0x7f2c5c000000, 0x7f2c5c021000, 0, true, 0, 0, "", false},
		{0x7f2c5d000000, 0x7f2c5d001000, 0, true, 0xfd01, 9, "/tmp/a b\nc", true},
		{0x7ffd1c1e3000, 0x7ffd1c1e5000, 0, true, 0, 0, "[vdso]", false},
	}
	if bad != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d bad, %+v", bad, got)
	}
	if i := find(got, 0x55d0c8a4dfff); i != 1 {
		t.Error(i)
	}
	if i := find(got, 0x55d0c8a4e000); i != -1 {
		t.Error(i)
	}
}

// TestReadableWithoutVersion: the version of a symbol is left out, and no other @.
func TestReadableWithoutVersion(t *testing.T) {
	for name, want := range map[string]string{
		"__libc_start_main@GLIBC_2.2.5": "__libc_start_main",
		"memcpy@@GLIBC_2.14":            "memcpy",
		"_Znwm@GLIBCXX_3.4":             "operator new",
		"__cxa_begin_catch@CXXABI_1.3":  "__cxa_begin_catch",
		"fastf@plt":                     "fastf@plt",
		"@GLIBC_2.2":                    "@GLIBC_2.2",
		"a@b_1":                         "a@b_1",
		"a@@GLIBC_PRIVATE":              "a",
		"a@LIB_1x":                      "a@LIB_1x",
		"a@":                            "a@",
		"":                              "",
	} {
		if got := Readable(name); got != want {
			t.Errorf("%q is read as %q, want %q", name, got, want)
		}
	}
}

func TestReadable(t *testing.T) {
	for name, want := range map[string]string{
		"malloc": "malloc", "_start": "_start", "_ZN2ns3boxIiE3getEi": "ns::box<int>::get",
		"_ZNSt6vectorIiSaIiEE9push_backERKi": "std::vector<int, std::allocator<int> " +
			">::push_back",
		"_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE": "core::fmt::Formatter::write_str",
		"_RNvC6_123foo3bar": "123foo::bar",
		"_ZN":               "_ZN", "_Zrubbish": "_Zrubbish",
		"runtime.gcBgMarkWorker.func1": "runtime.gcBgMarkWorker.func1", "a\x1bb": "a?b",
	} {
		if got := Readable(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func FuzzMaps(f *testing.F) {
	f.Add([]byte(maps))
	// The same words, one file with a name and one without a number.
	f.Add([]byte("1-2 r-xp 0 fd:01 9 /a (deleted)\n2-3 r-xp 0 fd:01 0 /a (deleted)\n3-4 r-xp 0 " +
		"00:00 0\n4-5 r-xp 0 00:00 0 /a\n5-6 r-xp 0 fd:01 9 /a\n"))
	heapbound.Fuzz(f, func(t *testing.T, text []byte) {
		all, bad := ParseMaps(text)
		// What a line says does not depend on the ones before.
		var alone []Mapping
		for line := range bytes.Lines(text) {
			m, _ := ParseMaps(line)
			alone = append(alone, m...)
		}
		slices.SortStableFunc(alone, byStart)
		if !slices.Equal(all, alone) {
			t.Fatalf("%+v, line by line %+v", all, alone)
		}
		if len(all)+bad > bytes.Count(text, []byte("\n"))+1 {
			t.Fatal("more mappings than lines")
		}
		for i, m := range all {
			if m.End <= m.Start || i > 0 && m.Start < all[i-1].Start {
				t.Fatalf("%+v", all)
			}
			if j := find(all, m.Start); j >= 0 && all[j].Start != m.Start {
				t.Fatal(j)
			}
		}
	})
}

// FuzzELF: any bytes are an object or an error, in time and memory that their length bounds.
func FuzzELF(f *testing.F) {
	for _, o := range []struct {
		bytes int64
		name  string
	}{{8192, os.Args[0]}, {8192, "/bin/true"}} {
		if file, err := os.Open(o.name); err == nil {
			b := make([]byte, o.bytes)
			n, _ := file.Read(b)
			f.Add(b[:n], uint64(0x1000))
			file.Close()
		}
	}
	if b := vdsoBytes(); b != nil {
		f.Add(b, uint64(0x600))
	}
	heapbound.Fuzz(f, func(t *testing.T, b []byte, addr uint64) {
		h, err := readHeader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		_ = h.buildID()
		o := &object{loads: h.segments()}
		heapBound(t, len(b), func() {
			_ = o.readSymbols(h)
			o.addUnnamed(h)
		})
		for i := 1; i < len(o.syms); i++ {
			if o.syms[i].addr < o.syms[i-1].addr {
				t.Fatal("not in order")
			}
		}
		o.vaddr(addr)
		if _, offset, ok := o.find(addr); ok && offset > addr {
			t.Fatal(offset)
		}
		for i := range o.syms[:min(len(o.syms), 100)] {
			if name, _, ok := o.find(o.syms[i].addr); ok && name == "" {
				t.Fatal("no name")
			}
		}
	})
}

// heapBound fails where f allocates more than a reader of n bytes of somebody else's file may.
func heapBound(t *testing.T, n int, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8<<20+512*uint64(n) {
		t.Errorf("%d bytes were allocated for %d", grown, n)
	}
}

func vdsoBytes() []byte {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	all, _ := ParseMaps(b)
	for _, m := range all {
		if m.Path == "[vdso]" {
			mem, err := os.Open("/proc/self/mem")
			if err != nil {
				return nil
			}
			defer mem.Close()
			text := make([]byte, m.End-m.Start)
			if _, err := mem.ReadAt(text, int64(m.Start)); err == nil {
				return text
			}
		}
	}
	return nil
}
