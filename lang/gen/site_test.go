package gen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// raw attaches a program to a raw tracepoint; the returned function detaches it.
func (r *running) raw(name string, prog *ebpf.Program) (detach func()) {
	r.t.Helper()
	var l link.Link
	var err error
	if prog.Type() == ebpf.Tracing {
		l, err = link.AttachTracing(link.TracingOptions{Program: prog})
	} else {
		l, err = link.AttachRawTracepoint(link.RawTracepointOptions{Name: name, Program: prog})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return func() { l.Close() }
}

// syscalls are probes of a few system calls.
func syscalls(site check.Site, name string) []*check.Probe {
	var all []*check.Probe
	for i, s := range []struct {
		name   string
		number uint64
	}{{"getppid", unix.SYS_GETPPID}, {"getpgrp", unix.SYS_GETPGRP}, {"close", unix.SYS_CLOSE}} {
		all = append(
			all,
			&check.Probe{
				ID:       uint32(20 + i),
				Provider: "syscall",
				Module:   "vmlinux",
				Function: s.name,
				Name:     name,
				Site:     site,
				Key:      s.number,
			},
		)
	}
	return all
}

// ours continues in the next block only in a thread of this process.
func (h *hand) ours() {
	pid := h.builtin(check.BuiltinPID)
	h.branch(pid, ir.Eq, int64(os.Getpid()), 2)
}

func (h *hand) finish() {
	h.do(ir.OpJump, func(s *ir.Step) { s.To = len(h.f.Blocks) })
	h.block()
	h.end()
}

// TestSyscalls checks that a program for several system calls distinguishes them, and skips
// untraced ones.
func TestSyscalls(t *testing.T) {
	for _, typed := range []bool{false, true} {
		for _, site := range []check.Site{check.SiteSyscallEntry, check.SiteSyscallReturn} {
			t.Run(fmt.Sprint(typed, site), func(t *testing.T) { testSyscalls(t, typed, site) })
		}
	}
}

func testSyscalls(t *testing.T, typed bool, site check.Site) {
	name, point := "entry", "sys_enter"
	if site == check.SiteSyscallReturn {
		name, point = "return", "sys_exit"
	}
	probes := syscalls(site, name)
	h := newHand(64).clause(probes...)
	count := h.aggregation(check.Count, 40)
	h.ours()
	key := h.scratch(40)
	at := func(off int) ir.Mem {
		return ir.Mem{Base: ir.InScratch, Off: key.Off + off,
			Reg: ir.None}
	}
	h.do(
		ir.OpBuiltinStr,
		func(s *ir.Step) { s.Which, s.Mem, s.Size = check.BuiltinProbeFunc, key, 16 },
	)
	h.store(at(16), h.arg(0), 8)
	h.store(at(24), h.builtin(check.BuiltinErrno), 8)
	h.store(at(32), h.builtin(check.BuiltinID), 8)
	h.do(ir.OpAggregate, func(s *ir.Step) { s.N, s.Mem = count, key })
	h.finish()
	k := kernelHere()
	k.TypedRaw = typed
	if typed {
		if _, err := btf.LoadKernelSpec(); err != nil {
			t.Skip("needs: kernel feature BTF")
		}
	}
	r := load(t, h.p, k, Limits{})
	detach := r.raw(point, r.program(probes, 0))
	locked(func() {
		for range 3 {
			unix.RawSyscall(unix.SYS_GETPPID, 11, 0, 0)
		}
		unix.RawSyscall(unix.SYS_GETUID, 11, 0, 0)
		unix.RawSyscall(unix.SYS_CLOSE, 1<<20, 0, 0)
	})
	detach()
	row := func(name string, arg, errno, id uint64) string {
		b := make([]byte, 40)
		copy(b, name)
		for i, v := range []uint64{arg, errno, id} {
			binary.NativeEndian.PutUint64(b[16+8*i:], v)
		}
		return string(b)
	}
	got := r.aggregated(count)
	want := map[string]uint64{row("getppid", 11, 0, 20): 3, row("close", 1<<20, 0, 22): 1}
	if site == check.SiteSyscallReturn {
		bad := -int64(unix.EBADF)
		want = map[string]uint64{
			row("getppid", uint64(os.Getppid()), 0, 20):       3,
			row("close", uint64(bad), uint64(unix.EBADF), 22): 1,
		}
	}
	for k, n := range want {
		if len(got[k]) == 0 || got[k][0] != n {
			t.Errorf("%q: counted %v, want %d", k, got[k], n)
		}
	}
	for k := range got {
		if !strings.HasPrefix(k, "getp") && !strings.HasPrefix(k, "close") {
			t.Errorf("%q was counted", k)
		}
	}
}

// TestProfile checks that arg0 of profile is the kernel's address, arg1 the process's, and that one
// of them is 0.
func TestProfile(t *testing.T) {
	probe := &check.Probe{
		ID:       30,
		Provider: "profile",
		Name:     "profile-999",
		Site:     check.SitePerfEvent,
	}
	h := newHand(64).clause(probe)
	a, b := h.arg(0), h.arg(1)
	both := h.value(ir.OpSet, func(s *ir.Step) { s.A, s.Cond = a, ir.Ne })
	other := h.value(ir.OpSet, func(s *ir.Step) { s.A, s.Cond = b, ir.Ne })
	place := h.two(ir.OpOr, a, b, false)
	seen := h.global()
	h.store(seen, place, 8)
	n := []ir.Mem{h.global(), h.global(), h.global()}
	add := func(m ir.Mem, r ir.Reg) {
		h.store(m, h.two(ir.OpAdd, h.load(m, 8, false), r, false),
			8)
	}
	add(n[0], both)
	add(n[1], other)
	add(n[2], h.two(ir.OpAnd, both, other, false))
	h.end()
	r := load(t, h.p, kernelHere(), Limits{})
	prog := r.program([]*check.Probe{probe}, 0)
	locked(func() {
		fd, err := unix.PerfEventOpen(
			&unix.PerfEventAttr{
				Type:   unix.PERF_TYPE_SOFTWARE,
				Config: unix.PERF_COUNT_SW_CPU_CLOCK,
				Sample: 997,
				Bits:   unix.PerfBitFreq,
			},
			0,
			-1,
			-1,
			unix.PERF_FLAG_FD_CLOEXEC,
		)
		if err != nil {
			t.Skip("needs: kernel feature perf_event:", err)
		}
		defer unix.Close(fd)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(20 * time.Second)
		for i := 0; ; i++ {
			if g := r.globals(); g[1] >= 3 && g[2] >= 3 {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("after %d turns: %d in the kernel, %d in the process", i, g[1], g[2])
			}
			for range 1000 {
				unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
			}
			for range 1000000 {
				i ^= i << 1
			}
			runtime.KeepAlive(i)
		}
	})
	if g := r.globals(); g[3] != 0 || g[0] == 0 {
		t.Errorf("%d samples in both, the last at %#x", g[3], g[0])
	}
}

// TestTyped checks that arguments of BTF-typed tracepoints, and members of structs, are read
// without helpers.
func TestTyped(t *testing.T) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	var task *btf.Struct
	if err := spec.TypeByName("task_struct", &task); err != nil {
		t.Fatal(err)
	}
	off := -1
	for _, m := range task.Members {
		if m.Name == "pid" {
			off = int(m.Offset.Bytes())
		}
	}
	probe := &check.Probe{
		ID:       40,
		Provider: "sdt",
		Module:   "sched",
		Name:     "sched_switch",
		Site:     check.SiteTracepointBTF,
	}
	h := newHand(64).clause(probe)
	count := h.aggregation(check.Count, 8)
	prev := h.arg(1)
	pid := h.value(
		ir.OpRead,
		func(s *ir.Step) { s.A, s.Imm, s.Size, s.Space = prev, int64(off), 4, check.Typed },
	)
	own := h.builtin(check.BuiltinTID)
	same := h.value(ir.OpSet, func(s *ir.Step) { s.A, s.B, s.Cond = pid, own, ir.Eq })
	key := h.scratch(8)
	h.store(key, same, 8)
	h.do(ir.OpAggregate, func(s *ir.Step) { s.N, s.Mem = count, key })
	h.end()
	r := load(t, h.p, kernelHere(), Limits{})
	r.attachTo = "sched_switch"
	detach := r.raw("sched_switch", r.program([]*check.Probe{probe}, 0))
	deadline := time.Now().Add(20 * time.Second)
	var got map[string][]uint64
	for len(got) == 0 && time.Now().Before(deadline) {
		unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil)
		got = r.aggregated(count)
	}
	detach()
	got = r.aggregated(count)
	if n := got["\x01\x00\x00\x00\x00\x00\x00\x00"]; len(got) != 1 || n == nil {
		t.Errorf("who leaves the CPU is not who runs on it: %v", got)
	}
}

// TestFunctions checks arguments and return values of kernel functions: vfs_read of a pipe that
// contains 7 bytes.
func TestFunctions(t *testing.T) {
	for _, c := range []struct {
		name   string
		site   check.Site
		probe  string
		arg    int
		want   uint64
		attach func(prog *ebpf.Program) (link.Link, error)
	}{
		{"kprobe", check.SiteKprobe, "entry", 2, 4096, func(p *ebpf.Program) (link.Link, error) { return link.Kprobe("vfs_read", p, nil) }},
		{"kretprobe", check.SiteKretprobe, "return", 1, 7, func(p *ebpf.Program) (link.Link, error) { return link.Kretprobe("vfs_read", p, nil) }},
		{"fentry", check.SiteFentry, "entry", 2, 4096, func(p *ebpf.Program) (link.Link, error) { return link.AttachTracing(link.TracingOptions{Program: p}) }},
		{"fexit", check.SiteFexit, "return", 1, 7, func(p *ebpf.Program) (link.Link, error) { return link.AttachTracing(link.TracingOptions{Program: p}) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			probe := &check.Probe{
				ID:       50,
				Provider: "fbt",
				Module:   "vmlinux",
				Function: "vfs_read",
				Name:     c.probe,
				Site:     c.site,
			}
			if c.site == check.SiteFexit && !since(5, 17) {
				t.Skip("needs: kernel feature bpf_get_func_ret (5.17)") // trace uses kretprobes
			}
			h := newHand(64).clause(probe)
			count := h.aggregation(check.Count, 16)
			h.ours()
			key := h.scratch(16)
			h.store(key, h.arg(c.arg), 8)
			stack := h.value(ir.OpStack, func(s *ir.Step) { s.N = 1 })
			h.store(ir.Mem{Base: ir.InScratch, Off: key.Off + 8, Reg: ir.None}, stack, 8)
			h.do(ir.OpAggregate, func(s *ir.Step) { s.N, s.Mem = count, key })
			h.finish()
			r := load(t, h.p, kernelHere(), Limits{})
			if c.site == check.SiteFentry || c.site == check.SiteFexit {
				r.attachTo, r.feature = "vfs_read", c.name
			}
			if _, err := os.Stat("/sys/bus/event_source/devices/kprobe"); err != nil &&
				strings.HasPrefix(c.name, "k") {
				// without a PMU for them the package needs tracefs, which may not be mounted
				t.Skip("needs: kernel feature kprobe")
			}
			l, err := c.attach(r.program([]*check.Probe{probe}, 0))
			if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, os.ErrNotExist) ||
				errors.Is(err, os.ErrPermission) {
				t.Skipf("needs: kernel feature %s: %v", c.name, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			in, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			defer out.Close()
			if _, err := out.WriteString("7 bytes"); err != nil {
				t.Fatal(err)
			}
			if _, err := in.Read(make([]byte, 4096)); err != nil {
				t.Fatal(err)
			}
			l.Close()
			got := r.aggregated(count)
			found := false
			for k, n := range got {
				w := words([]byte(k))
				if w[0] == c.want && n[0] > 0 {
					found = true
					start, size, err := kallsyms(t)("vfs_read")
					if f := r.frames(uint32(w[1])); c.probe == "entry" && err == nil &&
						(len(f) < 2 || f[1]-start >= size) {
						t.Errorf(
							"the stack begins with %x, not in vfs_read, which is at %x", f, start,
						)
					}
				}
			}
			if !found {
				t.Errorf("%d was not seen: %v", c.want, got)
			}
		})
	}
}
