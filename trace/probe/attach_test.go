package probe

import (
	"encoding/binary"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/lang/check"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// counter is a map with one number, and programs that count into it.
type counter struct {
	t testing.TB
	m *ebpf.Map
}

// newCounter makes a counter, or skips where programs can't be loaded.
func newCounter(t testing.TB) *counter {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs: root (BPF)")
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return &counter{t, m}
}

// value reads the counter.
func (c *counter) value() uint64 {
	var b [8]byte
	if err := c.m.Lookup(uint32(0), &b); err != nil {
		c.t.Fatal(err)
	}
	return binary.NativeEndian.Uint64(b[:])
}

// load loads a program that counts each run in which the conditions hold: instructions that jump to
// "out" where not. R6 is the context.
func (c *counter) load(e *Env, spec ebpf.ProgramSpec, conditions ...asm.Instruction) *ebpf.Program {
	c.t.Helper()
	code := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	code = append(code, conditions...)
	code = append(code,
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, c.m.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
	spec.Instructions, spec.License = code, "GPL"
	collection, err := ebpf.NewCollectionWithOptions(
		&ebpf.CollectionSpec{Programs: map[string]*ebpf.ProgramSpec{"count": &spec}},
		ebpf.CollectionOptions{Cache: e.Types().Cache()},
	)
	if err != nil {
		c.t.Fatal(err)
	}
	prog := collection.DetachProgram("count")
	collection.Close()
	c.t.Cleanup(func() { prog.Close() })
	runtime.KeepAlive(c.m)
	return prog
}

// mine lets only this thread's events pass: its id is in the lower half of
// bpf_get_current_pid_tgid.
func mine() []asm.Instruction {
	return []asm.Instruction{
		asm.FnGetCurrentPidTgid.Call(),
		asm.LSh.Imm(asm.R0, 32),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(unix.Gettid()), "out"),
	}
}

// seekTo is a place in a file that nobody else goes to.
const seekTo = 123456789

// seek makes the system call lseek, times times.
func seek(t testing.TB, times int) {
	t.Helper()
	fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for range times {
		if _, err := unix.Seek(fd, seekTo, unix.SEEK_SET); err != nil {
			t.Fatal(err)
		}
	}
}

func attach(t testing.TB, e *Env, programs ...Placed) *Attachment {
	t.Helper()
	a, err := e.Attach(programs)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Skipped) > 0 || a.Attached != a.Wanted {
		t.Fatal(a)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func one(t testing.TB, e *Env, text string) *check.Probe {
	t.Helper()
	list, err := e.Probes(described(t, text))
	if err != nil || len(list) != 1 {
		t.Fatal(text, list, err)
	}
	return list[0]
}

// The calls that this thread makes are those that are counted, until it is taken off.
func TestAttachSyscall(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e, c := here(t), newCounter(t)
	for _, test := range []struct {
		probe      string
		conditions []asm.Instruction
	}{
		{"syscall::lseek:entry", []asm.Instruction{
			asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord),
			asm.JNE.Imm(asm.R1, unix.SYS_LSEEK, "out"),
		}},
		{"syscall::lseek:return", []asm.Instruction{
			asm.LoadMem(asm.R1, asm.R6, 8, asm.DWord), // what it returned: what nobody else returns
			asm.JNE.Imm(asm.R1, seekTo, "out"),
		}},
	} {
		prog := c.load(
			e,
			ebpf.ProgramSpec{Type: ebpf.RawTracepoint},
			append(mine(), test.conditions...)...)
		a := attach(
			t, e, Placed{Program: prog, Probes: []*check.Probe{one(t, e, test.probe)}, CPU: -1},
		)
		// A signal of Go's scheduler behind the call ends with rt_sigreturn, which returns the
		// call's result again and so counts twice.
		var got uint64
		for range 10 {
			before := c.value()
			seek(t, 1000)
			if got = c.value() - before; got <= 1000 {
				break
			}
		}
		if got != 1000 {
			t.Errorf("%s: %d of 1000", test.probe, got)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		after := c.value()
		seek(t, 1)
		if got := c.value(); got != after {
			t.Errorf("%s: fires after it was taken off", test.probe)
		}
		if err := a.Close(); err != nil {
			t.Error("closed twice:", err)
		}
	}
}

// A tracepoint, typed for the verifier and not: a thread that yields the CPU to nobody enters the
// scheduler as often.
func TestAttachTracepoint(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e, c := here(t), newCounter(t)
	if _, err := e.BTF(); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	sdt := one(t, e, "sdt:signal::signal_generate")
	sdt.Arguments()
	raw := one(t, e, "rawtp:signal::signal_generate")
	if sdt.Site != check.SiteTracepointBTF || raw.Site != check.SiteRawTracepoint {
		t.Fatal(sdt.Site, raw.Site)
	}
	for _, test := range []struct {
		probe *check.Probe
		spec  ebpf.ProgramSpec
	}{
		{sdt, ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceRawTp, AttachTo: e.AttachTo(sdt)}},
		{raw, ebpf.ProgramSpec{Type: ebpf.RawTracepoint, AttachTo: e.AttachTo(raw)}},
	} {
		before := c.value()
		// Its first argument is the signal: one that nobody minds.
		signal := append(
			mine(), asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord),
			asm.JNE.Imm(asm.R1, int32(unix.SIGURG), "out"),
		)
		a := attach(
			t,
			e,
			Placed{
				Program: c.load(e, test.spec, signal...),
				Probes:  []*check.Probe{test.probe},
				CPU:     -1,
			},
		)
		for range 50 {
			if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGURG); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.value() - before; got != 50 {
			t.Errorf("%s: %d of 50", test.probe, got)
		}
		a.Close()
	}
}

// A timer fires on each CPU as often as it should; on one that sleeps it may come late, never more
// often.
func TestAttachTimer(t *testing.T) {
	e, c := here(t), newCounter(t)
	probe := one(t, e, "profile-1000")
	prog := c.load(e, ebpf.ProgramSpec{Type: ebpf.PerfEvent})
	a := attach(t, e, Placed{Program: prog, Probes: []*check.Probe{probe}, CPU: -1})
	start := time.Now()
	deadline := start.Add(20 * time.Second)
	for x := 0; c.value() < 200; x++ { // busy, so that at least this CPU's clock goes
		if x%1000 == 0 && time.Now().After(deadline) {
			t.Fatalf("%d firings in 20 s", c.value())
		}
	}
	took := time.Since(start)
	if most := uint64(took.Milliseconds()+2)*uint64(runtime.NumCPU()) + 10; c.value() > most {
		t.Errorf("%d firings in %v on %d CPUs", c.value(), took, runtime.NumCPU())
	}
	a.Close()
	// On one CPU only, and on one that there isn't.
	a, err := e.Attach([]Placed{{Program: prog, Probes: []*check.Probe{probe}, CPU: 0}})
	if err != nil || a.Attached != 1 || len(a.links) != 1 {
		t.Error(a, err)
	}
	a.Close()
	a, err = e.Attach([]Placed{{Program: prog, Probes: []*check.Probe{probe}, CPU: 99999}})
	if err != nil || a.Attached != 0 ||
		!strings.Contains(
			a.String(),
			"0 of 1 attached; 1 skipped because CPU 99999 is not online: profile:::profile-1000",
		) {
		t.Error(a, err)
	}
}

// BEGIN and tick are run by hand, and see the arguments that they are given.
func TestRun(t *testing.T) {
	e, c := here(t), newCounter(t)
	prog := c.load(e, ebpf.ProgramSpec{Type: ebpf.RawTracepoint},
		asm.LoadMem(asm.R1, asm.R6, 0, asm.DWord), asm.JNE.Imm(asm.R1, 42, "out"),
		asm.LoadMem(asm.R1, asm.R6, 72, asm.DWord), asm.JNE.Imm(asm.R1, -7, "out"))
	a := attach(
		t,
		e,
		Placed{
			Program: prog,
			Probes:  []*check.Probe{one(t, e, "BEGIN"), one(t, e, "tick-1s")},
			CPU:     -1,
		},
	)
	if a.String() != "2 attached" {
		t.Error(a)
	}
	for range 3 {
		if _, err := RunOnce(prog, 42, 0, 0, 0, 0, 0, 0, 0, 0, ^uint64(6)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := RunOnce(prog, 43); err != nil {
		t.Fatal(err)
	}
	if c.value() != 3 {
		t.Errorf("counted %d of 3", c.value())
	}
}

func BenchmarkRun(b *testing.B) {
	e, c := here(b), newCounter(b)
	prog := c.load(e, ebpf.ProgramSpec{Type: ebpf.RawTracepoint})
	for b.Loop() {
		if _, err := RunOnce(prog); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAttachSyscalls(b *testing.B) {
	e, c := here(b), newCounter(b)
	probes, err := e.Probes(described(b, "syscall:::entry"))
	if err != nil {
		b.Fatal(err)
	}
	prog := c.load(e, ebpf.ProgramSpec{Type: ebpf.RawTracepoint})
	for b.Loop() {
		attach(b, e, Placed{Program: prog, Probes: probes, CPU: -1}).Close()
	}
}
