package symbol

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/bpf"

	"golang.org/x/sys/unix"
)

// ended are process IDs that no process has.
const endedParent, endedChild, endedGrandchild = 1 << 28, 1<<28 + 1, 1<<28 + 2

// ownLibrary returns a mapping of a copy of this program, and the event that reports it.
func ownLibrary(t *testing.T, name string, pid int, start uint64) bpf.MapEvent {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Link(own, path); err != nil {
		b, err := os.ReadFile(own)
		if err == nil {
			err = os.WriteFile(path, b, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return bpf.MapEvent{Kind: bpf.Mapped, PID: pid, Start: start, Length: 1 << 20,
		Device: uint64(st.Dev), Inode: st.Ino, Path: path}
}

// modulesOf returns the modules of addresses of a process.
func modulesOf(ps *Processes, pid int, addrs ...uint64) string {
	var out []string
	for _, addr := range addrs {
		out = append(out, ps.Place(pid, addr).Module)
	}
	return strings.Join(out, " ")
}

// Addresses of processes that have ended are in the files that the history reported: those of the
// program, of the one before it, of a child and of its child.
func TestHistoryOfEndedProcesses(t *testing.T) {
	h := NewHistory(kernel.Root{})
	defer h.Close()
	ps := NewProcesses(kernel.Root{})
	defer ps.Close() //nolint:errcheck // always nil
	ps.UseHistory(h)
	first := ownLibrary(t, "first", endedParent, 0x100000)
	second := ownLibrary(t, "second", endedParent, 0x400000)
	third := ownLibrary(t, "third", endedGrandchild, 0x800000)
	h.Apply([]bpf.MapEvent{
		{Kind: bpf.Executed, PID: endedParent}, first,
		{Kind: bpf.Forked, PID: endedChild, Parent: endedParent},
		{Kind: bpf.Executed, PID: endedParent}, second,
		{Kind: bpf.Forked, PID: endedGrandchild, Parent: endedChild}, third,
		{Kind: bpf.Ended, PID: endedParent}, {Kind: bpf.Ended, PID: endedChild},
		{Kind: bpf.Ended, PID: endedGrandchild},
	})
	for _, tt := range []struct {
		name string
		pid  int
		want string
	}{
		{"parent", endedParent, "first second "},
		{"child", endedChild, "first  "},
		{"grandchild", endedGrandchild, "first  third"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := modulesOf(ps, tt.pid, 0x100100, 0x400100, 0x800100); got != tt.want {
				t.Errorf("modules %q, want %q", got, tt.want)
			}
		})
	}
	if notes := ps.Notes(); len(notes) > 0 {
		t.Errorf("notes %q", notes)
	}
}

// What a process mapped after /proc was read is known after its end, with what /proc had.
func TestHistoryAfterProc(t *testing.T) {
	h := NewHistory(kernel.Root{})
	defer h.Close()
	ps := NewProcesses(kernel.Root{})
	defer ps.Close() //nolint:errcheck // always nil
	ps.UseHistory(h)
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	if err := ps.OpenMappedFiles(pid); err != nil {
		t.Fatal(err)
	}
	var before Mapping
	for _, m := range ps.procs[pid].maps {
		if m.Exec && m.Inode != 0 {
			before = m
			break
		}
	}
	c.Process.Kill() //nolint:errcheck // Wait returns it
	c.Wait()         //nolint:errcheck // it was killed
	h.Apply([]bpf.MapEvent{ownLibrary(t, "late", pid, 1<<40), {Kind: bpf.Ended, PID: pid}})
	want := filepath.Base(before.Path) + " late"
	if got := modulesOf(ps, pid, before.Start+1, 1<<40+0x100); got != want {
		t.Errorf("modules %q, want %q", got, want)
	}
}

// A file that lost its name after it was mapped is still read.
func TestHistoryOfARemovedFile(t *testing.T) {
	h := NewHistory(kernel.Root{})
	defer h.Close()
	ps := NewProcesses(kernel.Root{})
	defer ps.Close() //nolint:errcheck // always nil
	ps.UseHistory(h)
	e := ownLibrary(t, "removed", endedParent, 1<<40)
	e.Length = 1 << 40
	h.Apply([]bpf.MapEvent{{Kind: bpf.Executed, PID: endedParent}, e})
	if err := os.Remove(e.Path); err != nil {
		t.Fatal(err)
	}
	h.Apply([]bpf.MapEvent{{Kind: bpf.Ended, PID: endedParent}})
	// the place of a function of this program in its file
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	all, _ := ParseMaps(text)
	pc := uint64(reflect.ValueOf(modulesOf).Pointer())
	m := all[find(all, pc)]
	place := ps.Place(endedParent, e.Start+pc-m.Start+m.Offset)
	if !strings.HasSuffix(place.Name, "modulesOf") || place.Module != "removed" {
		t.Errorf("modulesOf is at %v", place)
	}
}

// A file that took the name of the mapped one is not read in its place.
func TestHistoryOfAReplacedFile(t *testing.T) {
	e := ownLibrary(t, "replaced", endedParent, 0x100000)
	if err := os.Rename(e.Path, e.Path+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.Path, []byte("\x7fELF another file"), 0o700); err != nil {
		t.Fatal(err)
	}
	h := NewHistory(kernel.Root{})
	defer h.Close()
	h.Apply([]bpf.MapEvent{{Kind: bpf.Executed, PID: endedParent}, e})
	m := mappingOf(&e)
	if f, key, err := h.duplicate(&m); err == nil {
		t.Errorf("%s was opened, inode %d", f.Name(), key.ino)
		f.Close() //nolint:errcheck // nothing was read
	}
}

// A history keeps a bounded number of processes, mappings and files.
func TestHistoryIsBounded(t *testing.T) {
	h := NewHistory(kernel.Root{})
	defer h.Close()
	own := ownLibrary(t, "bounded", 0, 0)
	for pid := 1 << 28; pid < 1<<28+3*mostRecorded; pid++ {
		m := own
		m.PID, m.Start = pid, 1<<20
		h.Apply([]bpf.MapEvent{{Kind: bpf.Forked, PID: pid, Parent: pid - 1},
			{Kind: bpf.Executed, PID: pid}, m})
		if pid%2 == 0 {
			h.Apply([]bpf.MapEvent{{Kind: bpf.Ended, PID: pid}})
		}
	}
	if len(h.of) > mostRecorded || len(h.ended) > mostEnded {
		t.Errorf("%d processes, %d of them ended", len(h.of), len(h.ended))
	}
	if h.versionOf(1<<28+3*mostRecorded-1) == 0 {
		t.Error("the last process is not known")
	}
	for n := range uint64(2 * mostLayout) {
		m := own
		m.PID, m.Start, m.Inode = 1<<28, n<<20, n+1
		h.Apply([]bpf.MapEvent{m})
	}
	r, _ := h.get(1 << 28)
	if n := len(r.layouts[0]); n > mostLayout || r.whole {
		t.Errorf("%d mappings, all of them: %v", n, r.whole)
	}
	for n := range uint64(2 * mostMapped) {
		m := own
		m.PID, m.Inode = int(1<<28+n/mostLayout), 1<<20+n
		h.Apply([]bpf.MapEvent{m})
	}
	if len(h.files.open) > mostMapped || h.files.files > mostMappedOpen {
		t.Errorf("%d files, %d of them open", len(h.files.open), h.files.files)
	}
}

// A history keeps a bounded number of mappings, also of processes that do not end.
func TestHistoryMappingsAreBounded(t *testing.T) {
	h := NewHistory(kernel.Root{})
	defer h.Close()
	const parent = 1 << 28
	h.Apply([]bpf.MapEvent{{Kind: bpf.Executed, PID: parent}})
	for n := range uint64(mostLayout) {
		h.Apply([]bpf.MapEvent{{Kind: bpf.Mapped, PID: parent, Start: n << 20, Length: 1 << 12,
			Path: "[vdso]"}})
	}
	for pid := parent + 1; pid < parent+2*mostHistory/mostLayout; pid++ {
		h.Apply([]bpf.MapEvent{{Kind: bpf.Executed, PID: parent - 1},
			{Kind: bpf.Forked, PID: pid, Parent: parent},
			{Kind: bpf.Forked, PID: pid, Parent: parent}})
		h.record(parent).whole = true // the parent is the youngest
	}
	sum := 0
	for _, r := range h.of {
		for _, layout := range r.layouts {
			sum += len(layout)
		}
	}
	if sum != h.mappings || sum > mostHistory || sum < mostHistory/2 {
		t.Errorf("%d mappings, counted %d; want at most %d", sum, h.mappings, mostHistory)
	}
}

// BenchmarkHistory is the cost of a process that executes a program with four files and ends.
func BenchmarkHistory(b *testing.B) {
	h := NewHistory(kernel.Root{})
	defer h.Close()
	for n := range b.N {
		pid := 1<<28 + n%(1<<20)
		events := []bpf.MapEvent{{Kind: bpf.Forked, PID: pid, Parent: 1},
			{Kind: bpf.Executed, PID: pid}}
		for i := range 4 {
			events = append(events, bpf.MapEvent{Kind: bpf.Mapped, PID: pid, Length: 1 << 20,
				Start: uint64(i+1) << 30, Inode: uint64(i + 1), Path: "/none/" + string(rune('a'+i))})
		}
		h.Apply(append(events, bpf.MapEvent{Kind: bpf.Ended, PID: pid}))
	}
}

// The newest processes are opened, and not those that began earlier.
func TestOpenYoungest(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()         //nolint:errcheck // it was killed
	defer c.Process.Kill() //nolint:errcheck // it runs
	ps := NewProcesses(kernel.Root{})
	defer ps.Close() //nolint:errcheck // always nil
	ps.OpenYoungest(time.Hour)
	if ps.procs[c.Process.Pid] == nil {
		t.Errorf("process %d is not known, of %d", c.Process.Pid, len(ps.procs))
	}
	old := NewProcesses(kernel.Root{})
	defer old.Close() //nolint:errcheck // always nil
	time.Sleep(20 * time.Millisecond)
	old.OpenYoungest(0)
	if old.procs[c.Process.Pid] != nil {
		t.Errorf("process %d began before, and is known", c.Process.Pid)
	}
}

// TestHistoryOfAFileThatHangs: while the open of a file does not return, names are looked up, and
// other files are opened. Few such opens are waited for.
func TestHistoryOfAFileThatHangs(t *testing.T) {
	h := NewHistory(kernel.Root{})
	defer h.Close()
	find := h.opener.find
	hold := make(chan struct{})
	h.opener.find = func(q openRequest) (*os.File, error) {
		if strings.HasPrefix(q.id.path, "/hangs") {
			<-hold
		}
		return find(q)
	}
	good := ownLibrary(t, "good", endedParent, 0x100000)
	for n := range uint64(mostHeldOpens - 1) {
		bad := good
		bad.Path, bad.Inode = "/hangs", n+1
		h.Apply([]bpf.MapEvent{{Kind: bpf.Executed, PID: endedParent}, bad, good})
	}
	m := mappingOf(&good)
	f, _, err := h.duplicate(&m)
	if err != nil {
		t.Fatalf("a file after one that hangs: %v", err)
	}
	f.Close() //nolint:errcheck // nothing was read
	if h.versionOf(endedParent) == 0 || len(h.opener.held) != mostHeldOpens-1 {
		t.Errorf("version %d, %d opens hang", h.versionOf(endedParent), len(h.opener.held))
	}
	began := time.Now()
	for n := range uint64(100) {
		bad := good
		bad.Path, bad.Inode = "/hangs", n+100
		h.Apply([]bpf.MapEvent{bad})
	}
	if len(h.opener.held) != mostHeldOpens || time.Since(began) > 20*time.Second {
		t.Errorf("%d opens hang, %v for 100 more", len(h.opener.held), time.Since(began))
	}
	close(hold)
	late := ownLibrary(t, "late", endedParent, 0x900000)
	m = mappingOf(&late)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		h.Apply([]bpf.MapEvent{late})
		if f, _, err := h.duplicate(&m); err == nil {
			f.Close() //nolint:errcheck // nothing was read
			break
		}
		if time.Now().After(end) {
			t.Fatal("no file is opened after those that hung")
		}
	}
}

// TestHistoryOfAFIFO: a FIFO in the place of a mapped file is not opened.
func TestHistoryOfAFIFO(t *testing.T) {
	e := ownLibrary(t, "fifo", endedParent, 0x100000)
	if err := os.Remove(e.Path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(e.Path, 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(e.Path, &st); err != nil {
		t.Fatal(err)
	}
	e.Inode = st.Ino
	h := NewHistory(kernel.Root{})
	defer h.Close()
	h.Apply([]bpf.MapEvent{{Kind: bpf.Executed, PID: endedParent}, e})
	m := mappingOf(&e)
	if f, _, err := h.duplicate(&m); err == nil || len(h.opener.held) > 0 {
		t.Errorf("%v, %d opens hang", f, len(h.opener.held))
	}
}
