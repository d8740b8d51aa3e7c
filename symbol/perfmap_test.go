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

	"culprit/kernel"
)

// parsed returns the ranges of a file's text.
func parsed(text []byte, most int) []compiled {
	order := uint64(0)
	all, _ := addLines(nil, text, &order, most)
	return newest(layered(all), most)
}

// TestLaterCodeWins: whatever the lines of a map, each address has the name of the last line that
// covers it, and the offset from where that line begins.
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
				want[at] = fmt.Sprintf("f%d+%d", n, at-start)
			}
		}
		all := parsed(text.Bytes(), maxCompiled)
		for at, name := range want {
			got := ""
			if c, ok := findCompiled(all, uint64(at)); ok {
				got = fmt.Sprintf("%s+%d", c.name, uint64(at)-c.from)
			}
			if got != name {
				t.Fatalf("seed %d, address %#x: %q, want %q; map:\n%s", seed, at, got, name, &text)
			}
		}
	}
}

// TestMapGrows: a map that is read in pieces has the same ranges as one that is read at once, also
// when a line is cut by the end of the file, and one written anew has nothing of what it had.
func TestMapGrows(t *testing.T) {
	name := filepath.Join(t.TempDir(), "map")
	r := rand.New(rand.NewPCG(1, 2))
	var text bytes.Buffer
	var j jitMap
	read := func() {
		t.Helper()
		f, key, err := openRegular(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		j.read(f, key, 1<<20, 1<<10)
	}
	check := func(when string) {
		t.Helper()
		want := parsed(text.Bytes(), 1<<10)
		if len(want) != len(j.code) {
			t.Fatalf("%s: %d ranges, want %d", when, len(j.code), len(want))
		}
		for i := range want {
			if j.code[i] != want[i] {
				t.Fatalf("%s: %+v, want %+v", when, j.code[i], want[i])
			}
		}
	}
	for n := range 200 {
		fmt.Fprintf(&text, "%x %x f%d %s\n", r.IntN(1000), 1+r.IntN(100), n,
			strings.Repeat("x", r.IntN(900)))
		cut := text.Bytes()[:text.Len()-r.IntN(20)]
		if err := os.WriteFile(name, cut, 0o600); err != nil {
			t.Fatal(err)
		}
		read()
	}
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	read()
	check("grown")
	text.Reset()
	for n := range 300 { // longer than before
		fmt.Fprintf(&text, "%x 8 g%d %s\n", n*4, n, strings.Repeat("y", 500))
	}
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	read()
	check("written anew")
}

// TestLargeMap: of a map with more code than is kept, and of a file longer than is read, the latest
// lines count. A line longer than the buffer is left out, not the lines behind it.
func TestLargeMap(t *testing.T) {
	name := filepath.Join(t.TempDir(), "map")
	var text bytes.Buffer
	for n := range 5000 {
		fmt.Fprintf(&text, "%x 10 f%d\n", 0x1000+n*16, n)
	}
	fmt.Fprintf(&text, "99 1 %s\n%x 10 last\n", strings.Repeat("z", 200<<10), 0x100)
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, most := range []int64{1 << 20, 250 << 10, 210 << 10} {
		f, key, err := openRegular(name)
		if err != nil {
			t.Fatal(err)
		}
		var j jitMap
		j.read(f, key, most, 100)
		f.Close()
		if c, ok := findCompiled(j.code, 0x105); !ok || c.name != "last" {
			t.Errorf("of %d bytes: %+v", most, c)
		}
		if c, ok := findCompiled(j.code, 0x1000+4999*16); !ok || c.name != "f4999" {
			t.Errorf("of %d bytes: %+v", most, c)
		}
		if _, ok := findCompiled(j.code, 0x1000); ok || len(j.code) > 100 {
			t.Errorf("of %d bytes: %d ranges are kept", most, len(j.code))
		}
	}
}

// TestManyLargeMaps: what is kept of the maps of all processes is bounded, and a note says so.
func TestManyLargeMaps(t *testing.T) {
	dir := t.TempDir()
	var text bytes.Buffer
	for n := range 30000 {
		fmt.Fprintf(&text, "%x 10 n%048d\n", 0x10000+n*16, n)
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
	for pid := 100; pid < 124; pid++ {
		proc := filepath.Join(dir, fmt.Sprint(pid))
		if err := os.MkdirAll(filepath.Join(proc, "root/tmp"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"stat": fmt.Sprintf("%d (a) S 1 7 7 0 -1 0 1 2 3 4 "+
				"5 6 7 8 20 0 1 0 100 100\n", pid),
			"maps":                                   "10000-90000000 rwxp 00000000 00:00 0 \n",
			"status":                                 fmt.Sprintf("NSpid:\t%d\n", pid),
			fmt.Sprintf("root/tmp/perf-%d.map", pid): text.String(),
		} {
			if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		place := ps.Place(pid, 0x10000+29999*16)
		if pid == 100 && place.Name == "" {
			t.Errorf("the first process has no names: %v", place)
		}
	}
	if grown := int64(heap()) - int64(before); grown > 2*maxJITLean {
		t.Errorf("%d MB are kept", grown>>20)
	}
	if notes := ps.Notes(); len(notes) != 1 ||
		!strings.Contains(notes[0], "maps of generated code") {
		t.Errorf("notes: %q", notes)
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

// FuzzPerfMap: any text is ranges in order, none of which overlap, and each is found.
func FuzzPerfMap(f *testing.F) {
	f.Add([]byte("7f2c5c0a1000 1f4 LazyCompile:*render /app/page.js:12\n0x7f2c5c0a1000 0x10 b\n"),
		uint64(0x7f2c5c0a1004))
	f.Add([]byte("100 100 a\n120 20 b\nfffffffffffffffe 1 c\n"), uint64(0x150))
	f.Fuzz(func(t *testing.T, text []byte, addr uint64) {
		all := parsed(text, 16)
		if len(all) > 16 {
			t.Fatalf("%d ranges", len(all))
		}
		for i, c := range all {
			if c.end <= c.start || c.from > c.start || c.name == "" || i > 0 &&
				c.start < all[i-1].end {
				t.Fatalf("%+v", all)
			}
			if got, ok := findCompiled(all, c.start); !ok || got != c {
				t.Fatalf("%+v is not found", c)
			}
		}
		if c, ok := findCompiled(all, addr); ok && (addr < c.start || addr >= c.end) {
			t.Fatalf("%x in %+v", addr, c)
		}
	})
}
