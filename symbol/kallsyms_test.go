package symbol

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/kernel/feature"
)

const kallsyms = `0000000000000000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 t __pi__text
ffffffff81000000 T startup
ffffffff81000100 T __pfx_do_one
ffffffff81000110 T do_one
ffffffff81000200 t do_two.isra.0
ffffffff81000300 D max_pfn
ffffffff81000400 B _end
ffffffffc0201000 t second	[ext4]
ffffffffc0200000 T first	[ext4]
ffffffffc0200800 t shared	[ext4]
ffffffffc0300000 t shared	[xfs]
ffffffffc0400000 t bpf_prog_0123456789abcdef_f	[bpf]
rubbish
ffffffff81000500
`

func TestKallsyms(t *testing.T) {
	table, err := ReadKallsyms(strings.NewReader(kallsyms))
	if err != nil {
		t.Fatal(err)
	}
	if table.Len() != 12 {
		t.Errorf("%d symbols", table.Len())
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/kallsyms", []byte(kallsyms), 0o600); err != nil {
		t.Fatal(err)
	}
	k := NewKernel(kernel.Root{Proc: dir})
	for _, c := range []struct {
		addr                 uint64
		text, symbol, module string
	}{
		{0xffffffff81000000, "vmlinux`startup", "vmlinux`startup", "vmlinux"},
		{0xffffffff81000005, "vmlinux`startup+0x5", "vmlinux`startup", "vmlinux"},
		{0xffffffff81000105, "vmlinux`startup+0x105", "vmlinux`startup", "vmlinux"},
		{0xffffffff8100011f, "vmlinux`do_one+0xf", "vmlinux`do_one", "vmlinux"},
		{0xffffffff81000200, "vmlinux`do_two.isra.0", "vmlinux`do_two.isra.0", "vmlinux"},
		{0xffffffff81000304, "vmlinux`max_pfn+0x4", "vmlinux`max_pfn", "vmlinux"},
		{0xffffffff81000404, "0xffffffff81000404", "0xffffffff81000404", "0xffffffff81000404"},
		{0xffffffffc02007ff, "ext4`first+0x7ff", "ext4`first", "ext4"},
		{0xffffffffc0201010, "ext4`second+0x10", "ext4`second", "ext4"},
		{0xffffffffc0250000, "0xffffffffc0250000", "0xffffffffc0250000", "0xffffffffc0250000"},
		{0xffffffffc0400010, "bpf`bpf_prog_0123456789abcdef_f+0x10",
			"bpf`bpf_prog_0123456789abcdef_f", "bpf"},
		{0x1234, "0x1234", "0x1234", "0x1234"},
		{0, "0x0", "0x0", "0x0"},
		{1<<64 - 1, "0xffffffffffffffff", "0xffffffffffffffff", "0xffffffffffffffff"},
	} {
		p := k.Place(c.addr)
		if p.String() != c.text || p.Symbol() != c.symbol || p.ModuleName() != c.module {
			t.Errorf("%x: %q %q %q, want %q %q %q", c.addr, p, p.Symbol(), p.ModuleName(), c.text,
				c.symbol, c.module)
		}
	}
	stack := k.Stack([]uint64{0xffffffff81000110, 0xffffffff81000200, 0xffffffff81000205})
	if got := fmt.Sprint(stack); got != "[vmlinux`do_one vmlinux`do_one+0xf0 "+
		"vmlinux`do_two.isra.0+0x5]" {
		t.Errorf("stack: %s", got)
	}
	if got := k.Place(0xffffffffc0201010).Plain() + ", " +
		k.Place(0xffffffff81000304).Plain(); got != "second+0x10 [ext4], max_pfn+0x4" {
		t.Errorf("plain: %s", got)
	}
	if got := k.Place(0xffffffffc0201010).Unresolved() + " " +
		k.Place(0x10).Unresolved(); got != "ext4:0x1010 0x10" {
		t.Errorf("unresolved: %s", got)
	}
	if err := k.Err(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		module, name string
		addr         uint64
		in           string
	}{{"", "max_pfn", 0xffffffff81000300, "vmlinux"}, {"", "shared", 0xffffffffc0200800, "ext4"},
		{"xfs", "shared", 0xffffffffc0300000, "xfs"},
		{"ext4", "max_pfn", 0, ""}, {"", "pfn", 0, ""}, {"", "", 0, ""},
		{"vmlinux", "_stext", 0xffffffff81000000, "vmlinux"}} {
		if addr, in, ok := k.Lookup(c.module, c.name); addr != c.addr || in != c.in ||
			ok != (c.addr != 0) {
			t.Errorf("%s`%s: %x %q %v", c.module, c.name, addr, in, ok)
		}
	}
}

// With hidden addresses, places are addresses, and a note says why.
func TestHiddenAddresses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/kallsyms",
		[]byte("0000000000000000 T _text\n0000000000000000 T b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	k := NewKernel(kernel.Root{Proc: dir})
	if got := k.Place(0xffffffff81000000).String(); got != "0xffffffff81000000" {
		t.Error(got)
	}
	if notes := k.Notes(); len(notes) != 1 || !strings.Contains(notes[0], "CAP_SYSLOG") {
		t.Errorf("notes: %q", notes)
	}
}

// TestRunningKernel asks for every symbol of the running kernel: each must come back at its own
// address, under its name or that of another one there.
func TestRunningKernel(t *testing.T) {
	if err := feature.KernelAddresses.Have(kernel.Root{}); err != nil {
		t.Skip("needs: kernel feature kallsyms:", err)
	}
	text, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	table, err := ReadKallsyms(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	names := map[uint64]map[string]bool{}
	lines := 0
	for line := range strings.Lines(string(text)) {
		var addr uint64
		var kind, name, module string
		_, _ = fmt.Sscanf(line, "%x %s %s %s", &addr, &kind, &name, &module)
		module = strings.Trim(module, "[]")
		if module == "" {
			module = vmlinux
		}
		if addr == 0 || strings.EqualFold(kind, "a") || strings.HasPrefix(name, "__pfx_") ||
			strings.HasPrefix(name, "__cfi_") {
			continue
		}
		lines++
		if names[addr] == nil {
			names[addr] = map[string]bool{}
		}
		names[addr][module+"`"+name] = true
	}
	if lines < 1000 || table.Len() != lines {
		t.Fatalf("%d lines, %d symbols", lines, table.Len())
	}
	for addr, all := range names {
		if p, ok := table.find(addr); ok && (p.Offset != 0 || !all[p.String()]) {
			t.Fatalf("%x: %v, want one of %v", addr, p, all)
		} else if !ok && !all["vmlinux`_end"] {
			t.Fatalf("%x: none of %v", addr, all)
		}
	}
	t.Logf("%d symbols in %d bytes", table.Len(), table.Size())
}

func TestBare(t *testing.T) {
	for name, want := range map[string]string{
		"f": "f", "f.isra.0": "f", "f.constprop.0.isra.12": "f", "f.part.3.cold": "f",
		"f.cold": "f", "f.llvm.1234567": "f", "f.0": "f.0", "a.b": "a.b",
		"runtime.main": "runtime.main", ".f": ".f", ".cold": ".cold",
		"main.f.func1": "main.f.func1", "": "",
	} {
		if got := Bare(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func FuzzKallsyms(f *testing.F) {
	f.Add([]byte(kallsyms), uint64(0xffffffff81000110))
	f.Add([]byte("1 T a\n1 T b"), uint64(1))
	heapbound.Fuzz(f, func(t *testing.T, text []byte, addr uint64) {
		table, err := ReadKallsyms(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if table.Len() > bytes.Count(text, []byte("\n"))+1 {
			t.Fatal("more symbols than lines")
		}
		for i := range table.syms {
			p, ok := table.find(table.syms[i].addr)
			if ok && (p.Offset != 0 || p.Name == "") {
				t.Fatalf("%x: %v", table.syms[i].addr, p)
			}
			if i > 0 && table.syms[i].addr < table.syms[i-1].addr {
				t.Fatal("not in order")
			}
		}
		if p, ok := table.find(addr); ok && p.Offset > addr {
			t.Fatalf("%x: %v", addr, p)
		}
		if len(table.syms) > 0 {
			if name := table.name(&table.syms[0]); name != "" {
				if _, _, ok := table.lookup("", name); !ok {
					t.Fatalf("%q is not found", name)
				}
			}
		}
	})
}

// BenchmarkKallsyms reads a table of 200,000 symbols, a third of them modules' out of order. What
// the kernel takes to write it comes on top.
func BenchmarkKallsyms(b *testing.B) {
	var text bytes.Buffer
	for i := range 200000 {
		if i < 130000 {
			fmt.Fprintf(&text, "%x t some_function_name_%d\n",
				uint64(0xffffffff81000000+uint64(i)*64), i)
		} else {
			fmt.Fprintf(&text, "%x t some_function_name_%d\t[module_%d]\n",
				0xffffffffc0000000+uint64(i/1000*65536+i*7919%65536), i, i/1000)
		}
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		t, err := ReadKallsyms(bytes.NewReader(text.Bytes()))
		if err != nil || t.Len() != 200000 {
			b.Fatal(err, t.Len())
		}
		b.ReportMetric(float64(t.Size()), "B/table")
	}
}

// BenchmarkRunningKernel reads the symbols of the running kernel.
func BenchmarkRunningKernel(b *testing.B) {
	for b.Loop() {
		NewKernel(kernel.Root{}).Place(0xffffffff81000000)
	}
}

func BenchmarkPlace(b *testing.B) {
	k := NewKernel(kernel.Root{})
	addr, _, ok := k.Lookup("", "schedule")
	if !ok {
		b.Skip("needs: kernel feature kallsyms")
	}
	for b.Loop() {
		_ = k.Place(addr + 7)
	}
}

// Single lookups agree with the kernel's table.
func TestLookupsAgreeWithTable(t *testing.T) {
	asked, table := NewKernel(kernel.Root{}), NewKernel(kernel.Root{})
	if table.load(); len(table.table.syms) == 0 {
		t.Skip("needs: root")
	}
	if asked.namer() == nil {
		t.Skip("needs: kernel feature bpf_kallsyms_lookup_name (5.16)")
	}
	var pcs []uint64
	for i := 0; i+1 < len(table.table.syms); i += 97 {
		s := table.table.syms[i]
		if (s.addr >= asked.start && s.addr < asked.end || s.addr >= asked.init &&
			s.addr < asked.past) && table.table.syms[i+1].addr > s.addr+4 {
			pcs = append(pcs, s.addr+4)
		}
	}
	// called the idle task of the first CPU
	if start, _, ok := table.Lookup(vmlinux, "start_kernel"); ok && asked.init > 0 {
		pcs = append(pcs, start+4)
	}
	got, want := asked.Stack(pcs), table.Stack(pcs)
	other := 0
	for i := range pcs {
		want[i].Base = 0
		if got[i] == want[i] {
			continue
		}
		addr, _, ok := table.table.lookup(got[i].Module, got[i].Name) // one of several names for it
		if got[i].Name = want[i].Name; !ok || addr != pcs[i]-got[i].Offset || got[i] != want[i] {
			t.Errorf("%#x: %+v, want %+v", pcs[i], got[i], want[i])
		}
		other++
	}
	if asked.table != nil || len(pcs) < 100 || other > len(pcs)/20 {
		t.Errorf("of %d functions %d have another name; the table was read: %v", len(pcs), other,
			asked.table != nil)
	}
	nowhere := []uint64{pcs[0], 0xffff_ffff_ffff_e000, 0x1234}
	for i, p := range asked.Stack(nowhere) {
		if p.Address != nowhere[i] || i > 0 && p != (Place{Address: nowhere[i]}) || i == 0 &&
			p.Name == "" {
			t.Errorf("%#x, where nothing is: %+v", nowhere[i], p)
		}
	}
	if asked.table != nil {
		t.Error("the table was read for what the kernel says is nowhere")
	}
	addr, size, ok := asked.Function("vfs_read")
	a, s, o := table.Function("vfs_read")
	// the table passes over what fills up to the next
	if !ok || addr != a || size > s || s-size > 64 || ok != o {
		t.Errorf("vfs_read is at %#x, %d bytes: %v; the table has %#x, %d: %v", addr, size, ok, a,
			s, o)
	}
	if _, _, ok := asked.Function("no_such_function"); ok || asked.table != nil {
		t.Error("no_such_function is there, or the table was read")
	}
}
