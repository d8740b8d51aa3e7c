package symbol

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"culprit/heapbound"
	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// A dumpWriter makes a jitdump.
type dumpWriter struct{ bytes.Buffer }

func newDump() *dumpWriter {
	d := &dumpWriter{}
	d.numbers(uint32(dumpMagic), uint32(1), uint32(dumpHeader), uint32(62), uint32(0),
		uint32(os.Getpid()), uint64(1), uint64(0))
	return d
}

func (d *dumpWriter) numbers(values ...any) {
	for _, v := range values {
		_ = binary.Write(d, binary.NativeEndian, v) // to memory
	}
}

func (d *dumpWriter) record(kind uint32, body []byte) {
	d.numbers(kind, uint32(dumpPrefix+len(body)), uint64(7))
	d.Write(body)
}

func (d *dumpWriter) load(addr, size, index uint64, name string) {
	b := &dumpWriter{}
	b.numbers(uint32(1), uint32(1), addr, addr, size, index)
	b.WriteString(name + "\x00")
	b.Write(make([]byte, size))
	d.record(dumpLoads, b.Bytes())
}

func (d *dumpWriter) move(from, to, size, index uint64) {
	b := &dumpWriter{}
	b.numbers(uint32(1), uint32(1), from, from, to, size, index)
	d.record(dumpMoves, b.Bytes())
}

func (d *dumpWriter) line(addr uint64, line uint32, file string) {
	b := &dumpWriter{}
	b.numbers(addr, uint64(1), addr, line, uint32(0))
	b.WriteString(file + "\x00")
	d.record(dumpDebugs, b.Bytes())
}

// Functions have the names of the last record that covers them, with file and line where present.
func TestDumpScan(t *testing.T) {
	d := newDump()
	d.load(0x1000, 0x100, 1, "first")
	d.record(4, make([]byte, 24)) // unwinding information
	d.line(0x2000, 12, "/srv/app/render.js")
	d.load(0x2000, 0x200, 2, "render")
	d.line(0x3000, 3, "/srv/app/page.js")
	d.load(0x3000, 0x10, 3, "page /srv/app/page.js:3")
	d.load(0x1040, 0x20, 4, "over") // over a part of first
	d.line(0x9000, 5, "none.js")    // of no code that follows
	d.load(0x5000, 0x10, 5, "moved")
	d.move(0x5000, 0x6000, 0x10, 5)
	d.load(0x7000, 0x10, 6, "")
	d.line(0x8000, 5, "\xee\x01garbage")
	d.load(0x8000, 0x10, 7, "garbled")
	d.line(0x8100, 5, "other.js")
	d.load(0x8100, 0x10, 8, "v8 /srv/page.js:5:1")
	d.record(77, []byte("a kind of the future"))
	whole := d.Len()
	d.load(0x1000, 0x100, 7, "incomplete")
	cut := d.Bytes()[:d.Len()-1]
	addrs := []uint64{0xfff, 0x1000, 0x103f, 0x1040, 0x1060, 0x10ff, 0x1100, 0x2001, 0x3000, 0x6001,
		0x7001, 0x8000, 0x8100}
	names, to, err := scanGenerated(bytes.NewReader(cut), 0, int64(len(cut)), addrs)
	if err != nil || to != int64(whole) {
		t.Fatalf("to %d, want %d; %v", to, whole, err)
	}
	var got []string
	for i, n := range names {
		got = append(got, n.Name)
		if addrs[i] < n.Low || addrs[i] >= n.High {
			t.Errorf("%x is not within %x to %x", addrs[i], n.Low, n.High)
		}
	}
	want := "|first|first|over|first|first||render render.js:12|page /srv/app/page.js:3|moved|" +
		namelessCode + "|garbled|v8 /srv/page.js:5:1"
	if text := strings.Join(got, "|"); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// What is appended is read without what was read; code that moves then has its name too.
func TestDumpContinues(t *testing.T) {
	d := newDump()
	d.load(0x1000, 0x10, 1, "one")
	at := int64(d.Len())
	d.load(0x2000, 0x10, 2, "two")
	read := func(from int64) string {
		names, to, err := scanGenerated(bytes.NewReader(d.Bytes()), from, int64(d.Len()),
			[]uint64{0x1000, 0x2000, 0x3000})
		if err != nil || to != int64(d.Len()) {
			t.Errorf("to %d of %d: %v", to, d.Len(), err)
		}
		return names[0].Name + " " + names[1].Name + " " + names[2].Name
	}
	if got := read(at); got != " two " {
		t.Errorf("from the second record: %q", got)
	}
	d.move(0x1000, 0x3000, 0x10, 1)
	if got := read(at); got != "one two one" {
		t.Errorf("with a move: %q", got)
	}
}

// Damaged files have an error and the names before the damage.
func TestDumpDamaged(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(b []byte)
		names  string
		err    string
	}{
		{"version", func(b []byte) { b[4] = 9 }, "", "version 9"},
		{"header", func(b []byte) { b[8] = 1 }, "", "header of 1 bytes"},
		{"record", func(b []byte) {
			copy(b[dumpHeader+4:], []byte{3, 0, 0, 0})
		}, "", "record of 3 bytes"},
		{"long record", func(b []byte) { copy(b[dumpHeader+4:], []byte{0xff, 0xff, 0xff, 0xff}) }, "", ""},
		{"length", func(b []byte) { // of the code: beyond the last address
			copy(b[dumpHeader+dumpPrefix+24:], bytes.Repeat([]byte{0xff}, 8))
		}, "", ""},
		{"none", func([]byte) {}, "one", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDump()
			d.load(0x1000, 0x10, 1, "one")
			tt.damage(d.Bytes())
			names, _, err := scanGenerated(bytes.NewReader(d.Bytes()), 0, int64(d.Len()),
				[]uint64{0x1001})
			if names[0].Name != tt.names {
				t.Errorf("name %q", names[0].Name)
			}
			if (err != nil) != (tt.err != "") ||
				err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want %q", err, tt.err)
			}
		})
	}
}

// A process that has mapped its dump as code has names for its generated code, unless the file is
// of another user.
func TestDumpOfProcess(t *testing.T) {
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(code) //nolint:errcheck // of this test
	addr := addressOf(code)
	d := newDump()
	d.load(addr, 64, 1, "generated")
	file := filepath.Join(t.TempDir(), dumpName(os.Getpid()))
	if err := os.WriteFile(file, d.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mark, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mark) //nolint:errcheck // of this test
	name := func(ps *Processes, at uint64) string { return ps.Place(os.Getpid(), at).Name }
	ps := NewProcesses(kernel.Root{})
	defer ps.Close() //nolint:errcheck // always nil
	if got := name(ps, addr+5); got != "generated" {
		t.Errorf("%q", got)
	}
	more := &dumpWriter{}
	more.load(addr+64, 64, 2, "later")
	if _, err := f.Write(more.Bytes()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); name(ps, addr+70) != "later"; {
		if time.Now().After(deadline) {
			t.Fatalf("%q after the file has grown", name(ps, addr+70))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := name(ps, addr+5); got != "generated" {
		t.Errorf("%q after the file has grown", got)
	}
	if os.Getuid() != 0 {
		return
	}
	if err := os.Chown(file, 12345, -1); err != nil {
		t.Fatal(err)
	}
	fresh := NewProcesses(kernel.Root{})
	defer fresh.Close() //nolint:errcheck // always nil
	if got := name(fresh, addr+5); got != "" {
		t.Errorf("%q of a file of another user", got)
	}
}

// A dump names the addresses of a recorded profile if it is the recorded file, or its owner's.
func TestDumpOfRecording(t *testing.T) {
	d := newDump()
	d.load(0x1000, 0x10, 1, "one")
	d.load(0x2000, 0x10, 2, "two")
	file := filepath.Join(t.TempDir(), "jit-7.dump")
	if err := os.WriteFile(file, d.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "jit-8.dump")
	if err := os.WriteFile(other, []byte("1000 10 one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	s := NewStored(kernel.Root{}, nil)
	for _, tt := range []struct {
		name, file string
		inode      uint64
		err        string
	}{
		{"recorded", file, st.Ino, ""},
		{"own", file, 0, ""},
		{"another", file, st.Ino + 1, "another file"},
		{"no dump", other, 0, "no jitdump"},
		{"missing", file + "x", 0, "no such file"},
		{"relative", "jit-7.dump", 0, "jit-7.dump"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			names, err := s.GeneratedFunctions(tt.file, tt.inode,
				[]uint64{0x2001, 0x1001, 0x3000, 0x2001})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				return
			}
			if got := strings.Join(names, " "); got != "two one  two" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	if os.Getuid() == 0 {
		if err := os.Chown(file, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := s.GeneratedFunctions(file, 0, []uint64{0x1001}); err == nil ||
			!strings.Contains(err.Error(), "user 12345") {
			t.Errorf("of another user: %v", err)
		}
	}
}

// FuzzDump reads arbitrary dumps in bounded memory, and each address is within its range.
func FuzzDump(f *testing.F) {
	d := newDump()
	d.line(0x2000, 12, "/srv/app/render.js")
	d.load(0x2000, 0x20, 2, "render")
	d.move(0x2000, 0x3000, 0x20, 2)
	f.Add(d.Bytes(), uint16(0))
	f.Add(d.Bytes()[:50], uint16(40))
	heapbound.Fuzz(f, func(t *testing.T, b []byte, from uint16) {
		addrs := []uint64{0, 1, 0x2000, 0x2010, 0x3001, 1 << 63, 1<<64 - 1}
		names, to, _ := scanDump(bytes.NewReader(b), int64(from), int64(len(b)), addrs)
		if to < 0 || to > int64(len(b)) && to != int64(from) {
			t.Errorf("read to %d of %d", to, len(b))
		}
		for i, n := range names {
			if n.Name != "" && (addrs[i] < n.Low || addrs[i] >= n.High) {
				t.Errorf("%x is not within %+v", addrs[i], n)
			}
		}
	})
}

// addressOf returns where memory begins.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
