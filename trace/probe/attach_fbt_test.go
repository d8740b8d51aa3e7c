package probe

import (
	"runtime"
	"strings"
	"testing"

	"culprit/kernel/feature"
	"culprit/lang/check"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// peek makes the kernel call vfs_read, times times.
func peek(t testing.TB, times int) {
	t.Helper()
	fd, err := unix.Open("/proc/self/exe", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for range times {
		var b [1]byte
		if n, err := unix.Pread(fd, b[:], 1); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
}

// With each attach method, exactly the calls of a function that this thread makes are counted,
// until the program is detached.
func TestAttachFunction(t *testing.T) {
	needs(t, feature.Kprobe)
	for _, test := range []struct {
		method  AttachMethod
		feature feature.Feature
		name    string
	}{
		{AttachKprobe, feature.Kprobe, "entry"}, {AttachKprobe, feature.Kretprobe, "return"},
		{AttachMulti, feature.KprobeMulti, "entry"}, {AttachMulti, feature.KprobeMulti, "return"},
		{AttachFentry, feature.Fentry, "entry"}, {AttachAny, feature.Kprobe, "entry"}, {AttachAny, feature.Kprobe, "return"},
	} {
		t.Run(test.method.String()+" "+test.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			needs(t, test.feature)
			e, c := here(t), newCounter(t)
			e.Method = test.method
			probe := one(t, e, "fbt::vfs_read:"+test.name)
			if test.method == AttachFentry {
				if args, why := probe.Arguments(); len(args) != 4 || args[2].Name != "count" ||
					probe.Site != check.SiteFentry {
					t.Fatal(args, why, probe.Site)
				}
			}
			spec := ebpf.ProgramSpec{Type: ebpf.Kprobe}
			if probe.Site == check.SiteFentry {
				spec = ebpf.ProgramSpec{Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFEntry}
			}
			e.Fit(&spec, []*check.Probe{probe})
			a := attach(
				t, e,
				Placed{Program: c.load(e, spec, mine()...), Probes: []*check.Probe{probe}, CPU: -1},
			)
			before := c.value()
			peek(t, 100)
			if got := c.value() - before; got != 100 {
				t.Errorf("%d of 100", got)
			}
			if m := a.Missed(); m != (Missed{}) {
				t.Errorf("%+v", m)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			after := c.value()
			peek(t, 1)
			if got := c.value(); got != after {
				t.Error("it fires after it was taken off")
			}
		})
	}
}

// Many functions at once: the program finds out by its cookie at which it is, and what can't be had
// is left out and named.
func TestAttachManyFunctions(t *testing.T) {
	needs(t, feature.Kprobe)
	for _, method := range []AttachMethod{AttachAny, AttachKprobe} {
		t.Run(method.String(), func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			e, c := here(t), newCounter(t)
			e.Method = method
			probes, err := e.Probes(described(t, "fbt::vfs_r*:entry"))
			if err != nil {
				t.Fatal(err)
			}
			which := -1
			for i, p := range probes {
				if p.Function == "vfs_read" {
					which = i
				}
			}
			// One that there isn't, as if it had gone with its module.
			gone := *probes[0]
			gone.Function = "vfs_lost_in_space"
			e.targets[&gone] = &found{
				Listed: Listed{ID: 1 << 31, Function: gone.Function},
				site:   gone.Site,
			}
			all := append(probes[:len(probes):len(probes)], &gone)
			spec := ebpf.ProgramSpec{Type: ebpf.Kprobe}
			e.Fit(&spec, all)
			prog := c.load(
				e,
				spec,
				append(
					mine(), asm.Mov.Reg(asm.R1, asm.R6), asm.FnGetAttachCookie.Call(),
					asm.JNE.Imm(asm.R0, int32(which), "out"),
				)...)
			a, err := e.Attach([]Placed{{Program: prog, Probes: all, CPU: -1}})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if len(a.Skipped) != 1 || a.Skipped[0].Probe != &gone || a.Attached != len(probes) ||
				!strings.Contains(a.String(), "1 skipped because the kernel has no such function") {
				t.Error(a)
			}
			before := c.value() // attaching reads files too
			peek(t, 100)
			if got := c.value() - before; got != 100 {
				t.Errorf("%d of 100", got)
			}
			t.Log(a)
		})
	}
}

func BenchmarkAttachFunctions(b *testing.B) {
	for _, method := range []AttachMethod{AttachMulti, AttachKprobe} {
		for _, what := range []string{"fbt::vfs_read:entry", "fbt::tcp_*:entry"} {
			b.Run(method.String()+" "+what, func(b *testing.B) {
				needs(b, feature.Kprobe)
				if method == AttachMulti {
					needs(b, feature.KprobeMulti)
				}
				e, c := here(b), newCounter(b)
				e.Method = method
				probes, err := e.Probes(described(b, what))
				if err != nil {
					b.Fatal(err)
				}
				spec := ebpf.ProgramSpec{Type: ebpf.Kprobe}
				e.Fit(&spec, probes)
				prog := c.load(e, spec)
				for b.Loop() {
					a, err := e.Attach([]Placed{{Program: prog, Probes: probes, CPU: -1}})
					if err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					if a.Attached == 0 {
						b.Fatal(a)
					}
					b.ReportMetric(float64(a.Attached), "probes")
					a.Close()
					b.StartTimer()
				}
			})
		}
	}
}
