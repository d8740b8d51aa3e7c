package symbol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/kernel"
)

// scanned returns what a map says of addresses, which are sorted.
func scanned(text []byte, addrs []uint64) []Name {
	s := newMapScan(addrs)
	s.lines(text)
	return s.result()
}

// TestLaterCodeWins: whatever the lines of a map, each address has the name of the last line that
// covers it, and the offset from where that line begins. The answer is the same in its whole range.
func TestLaterCodeWins(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var text bytes.Buffer
		var want [256]string // by address: what an array of bytes would have
		for n := range 1 + r.IntN(40) {
			start := r.IntN(250)
			size := 1 + r.IntN(1+r.IntN(255-start))
			fmt.Fprintf(&text, "%x %x f%d\n", start, size, n)
			for at := start; at < start+size; at++ {
				want[at] = fmt.Sprintf("f%d-%d", n, start)
			}
		}
		var addrs []uint64
		for at := range uint64(256) {
			if r.IntN(4) == 0 {
				addrs = append(addrs, at)
			}
		}
		for i, n := range scanned(text.Bytes(), addrs) {
			if n.Low > addrs[i] || n.High <= addrs[i] {
				t.Fatalf("seed %d: %#x is not in its range %+v", seed, addrs[i], n)
			}
			for at := n.Low; at < min(n.High, 256); at++ {
				got := ""
				if n.Name != "" {
					got = fmt.Sprintf("%s-%d", n.Name, n.Start)
				}
				if got != want[at] {
					t.Fatalf("seed %d, address %#x of the range of %#x: %q, want %q; map:\n%s",
						seed, at, addrs[i], got, want[at], &text)
				}
			}
		}
	}
}

// jitProcess makes a directory as /proc with processes that have a map of generated code.
func jitProcess(t *testing.T, dir string, pid int, text string) (mapFile string) {
	t.Helper()
	proc := filepath.Join(dir, fmt.Sprint(pid))
	if err := os.MkdirAll(filepath.Join(proc, "root/tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	mapFile = fmt.Sprintf("root/tmp/perf-%d.map", pid)
	for name, text := range map[string]string{
		"stat":   fmt.Sprintf("%d (a) S 1 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 100 100\n", pid),
		"maps":   "1000-90000000 rwxp 00000000 00:00 0 \n",
		"status": fmt.Sprintf("NSpid:\t%d\n", pid),
		mapFile:  text,
	} {
		if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(proc, mapFile)
}

// TestMapGrows: a map that grows while addresses are asked for has the names of a map that is read
// at once, also when a line is cut by the end of the file; one that is written anew has nothing of
// what it had.
func TestMapGrows(t *testing.T) {
	dir := t.TempDir()
	name := jitProcess(t, dir, 7, "")
	r := rand.New(rand.NewPCG(1, 2))
	ps := NewProcesses(kernel.Root{Proc: dir})
	var text bytes.Buffer
	check := func(when string, n int) {
		t.Helper()
		if p := ps.procs[7]; p != nil {
			p.jit.due, p.jit.none = time.Time{}, false
		}
		for range n {
			addr := 0x1000 + uint64(r.IntN(1100))
			want := scanned(text.Bytes()[:bytes.LastIndexByte(text.Bytes(), '\n')+1],
				[]uint64{addr})[0]
			got := ps.Place(7, addr)
			if got.Name != want.Name || want.Name != "" && got.Offset != addr-want.Start {
				t.Fatalf("%s: %#x is %v, want %+v", when, addr, got, want)
			}
		}
	}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 200 {
		whole := text.Len()
		fmt.Fprintf(&text, "%x %x f%d %s\n", 0x1000+r.IntN(1000), 1+r.IntN(100), n,
			strings.Repeat("x", r.IntN(900)))
		cut := text.Bytes()[:text.Len()-1-r.IntN(min(20, text.Len()-whole-1))]
		write(cut)
		rest := bytes.Clone(text.Bytes()[len(cut):])
		text.Truncate(len(cut))
		check("cut", 5)
		text.Write(rest)
		write(text.Bytes())
		check("grown", 20)
	}
	text.Reset()
	for n := range 300 { // longer than before
		fmt.Fprintf(&text, "%x 8 g%d %s\n", 0x1000+n*4, n, strings.Repeat("y", 500))
	}
	write(text.Bytes())
	check("written anew", 100)
	if p := ps.procs[7]; len(p.jit.names) > 101 {
		t.Errorf("%d ranges are kept, 100 addresses were asked for", len(p.jit.names))
	}
}

// TestLargeMap: of a file longer than is read, the last lines count. A line longer than the buffer
// is left out, not the lines behind it.
func TestLargeMap(t *testing.T) {
	var text bytes.Buffer
	for n := range 5000 {
		fmt.Fprintf(&text, "%x 10 f%d\n", 0x1000+n*16, n)
	}
	fmt.Fprintf(&text, "99 1 %s\n%x 10 last\n", strings.Repeat("z", 200<<10), 0x100)
	addrs := []uint64{0x105, 0x1000, 0x1000 + 4999*16}
	for _, tt := range []struct {
		most  int64
		first string
	}{{1 << 20, "f0"}, {250 << 10, ""}, {210 << 10, ""}} {
		s := newMapScan(addrs)
		to, err := s.read(bytes.NewReader(text.Bytes()), 0, int64(text.Len()), tt.most)
		if err != nil || to != int64(text.Len()) {
			t.Errorf("of %d bytes: read to %d: %v", tt.most, to, err)
		}
		n := s.result()
		if n[0].Name != "last" || n[1].Name != tt.first || n[2].Name != "f4999" {
			t.Errorf("of %d bytes: %+v", tt.most, n)
		}
	}
}

// TestManyLargeMaps: what is kept of the maps of all processes is what was asked for, whatever the
// files have, and bounded in sum.
func TestManyLargeMaps(t *testing.T) {
	dir := t.TempDir()
	var text bytes.Buffer
	const lines = 30000
	for n := range lines {
		fmt.Fprintf(&text, "%x 10 n%0900d\n", 0x10000+n*16, n)
	}
	ps := NewProcesses(kernel.Root{Proc: dir})
	ps.DisableSymbolCache()
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for pid := 100; pid < 103; pid++ {
		jitProcess(t, dir, pid, text.String())
		last := ps.Place(pid, 0x10000+(lines-1)*16)
		if !strings.HasSuffix(last.Name, fmt.Sprint(lines-1)) {
			t.Fatalf("process %d has no names: %v", pid, last)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 1<<20 {
		t.Errorf("%d KB are kept of three addresses", grown>>10)
	}
	var pcs []uint64
	for n := range lines {
		pcs = append(pcs, 0x10000+uint64(n)*16+4)
	}
	for pid := 100; pid < 103; pid++ {
		ps.Learn([]Asked{{PID: pid, PCs: pcs}})
	}
	if grown := int64(heap()) - int64(before); grown > 2*mostGeneratedLean {
		t.Errorf("%d MB are kept of all addresses", grown>>20)
	}
	runtime.KeepAlive(ps)
}

// TestRenamedCode: code that is compiled anew at an address has the new name once the map says so,
// without the map being asked for an unknown address.
func TestRenamedCode(t *testing.T) {
	dir := t.TempDir()
	proc := filepath.Join(dir, "7")
	if err := os.MkdirAll(filepath.Join(proc, "root/tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(proc, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	put("stat", "7 (a) S 1 7 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 100 100\n")
	put("maps", "10000-20000 rwxp 00000000 00:00 0 \n")
	put("status", "NSpid:\t7\n")
	put("root/tmp/perf-7.map", "10100 40 first_tier\n")
	ps := NewProcesses(kernel.Root{Proc: dir})
	if p := ps.Place(7, 0x10104); p.String() != "first_tier+0x4" {
		t.Errorf("%v", p)
	}
	put("root/tmp/perf-7.map", "10100 40 second_tier\n")
	for until := time.Now().Add(10 * jitEach); time.Now().Before(until); time.Sleep(jitEach / 10) {
		if ps.Place(7, 0x10104).Name == "second_tier" {
			return
		}
	}
	t.Errorf("%v", ps.Place(7, 0x10104))
}

// FuzzPerfMap: whatever a map says, ranges contain their addresses, are equal or do not overlap. A
// name begins at or before its range.
func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("7f2c5c0a1000 1f4 LazyCompile:*render /app/page.js:12\n0x7f2c5c0a1000 0x10 b\n"),
		uint64(0x7f2c5c0a1004), uint64(0x7f2c5c0a1014))
	f.Add([]byte("100 100 a\n120 20 b\nfffffffffffffffe 1 c\n"), uint64(0x150), uint64(0x110))
	heapbound.Fuzz(f, func(t *testing.T, text []byte, one, other uint64) {
		addrs := []uint64{min(one, other), max(one, other)}
		if one == other {
			addrs = addrs[:1]
		}
		names := scanned(text, addrs)
		for i, n := range names {
			if n.Low > addrs[i] || n.High <= addrs[i] && n.Name != "" || n.Start > n.Low {
				t.Fatalf("%x: %+v", addrs[i], n)
			}
			if i > 0 && n != names[0] && n.Low < names[0].High {
				t.Fatalf("%+v overlap", names)
			}
		}
	})
}
