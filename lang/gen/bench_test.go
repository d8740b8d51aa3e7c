package gen

import (
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/ir/irtest"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// BenchmarkEvent measures the cost of an event: the time that the kernel accounts to the program,
// at a system call made b.N times. It includes about 20 ns for reading the clock twice.
func BenchmarkEvent(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"nothing", `BEGIN /pid == 1/ { exit(0); }`},
		{"global", `BEGIN { x++; }`},
		{"count", `BEGIN { @ = count(); }`},
		{"count by execname", `BEGIN { @[execname] = count(); }`},
		{"count by pid", `BEGIN { @[pid] = count(); }`},
		{"count by execname, probefunc", `BEGIN { @[execname, probefunc] = count(); }`},
		{"count by stack", `BEGIN { @[stack()] = count(); }`},
		{"count by ustack", `BEGIN { @[ustack()] = count(); }`},
		{"quantize", `BEGIN { @ = quantize(timestamp); }`},
		{"quantize by execname", `BEGIN { @[execname] = quantize(timestamp); }`},
		{"llquantize", `BEGIN { @ = llquantize(arg0, 10, 0, 6, 20); }`},
		{"stddev", `BEGIN { @ = stddev(timestamp); }`},
		{"argument", `BEGIN { @ = sum(arg0); }`},
		{"self", `BEGIN { self->t = timestamp; } BEGIN /self->t/ { @ = sum(timestamp - self->t); self->t = 0; }`},
		{"array", `BEGIN { a[tid] = timestamp; } BEGIN /a[tid]/ { @ = sum(timestamp - a[tid]); a[tid] = 0; }`},
		{"record", `BEGIN { trace(arg0); }`},
		{"record with text", `BEGIN { printf("%s %d", execname, arg0); }`},
		{"string compare", `BEGIN /execname == "something"/ { exit(0); }`},
		{"strjoin", `BEGIN { this->s = strjoin(execname, ":x"); }`},
		{"index", `BEGIN { this->i = index("/usr/lib/x86_64-linux-gnu/libc.so.6", "libc"); }`},
	} {
		b.Run(
			strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) { benchmarkEvent(b, c.text) },
		)
	}
}

func benchmarkEvent(b *testing.B, text string) {
	p, err := irtest.Compile(text, check.Options{})
	if err != nil {
		b.Fatal(err)
	}
	benchmarkProgram(b, p, kernelHere())
}

func benchmarkProgram(b *testing.B, p *ir.Program, k Kernel) {
	r := load(b, p, k, Limits{Ring: 1 << 26})
	probes := []*check.Probe{
		{
			ID:       20,
			Provider: "syscall",
			Module:   "vmlinux",
			Function: "getppid",
			Name:     "entry",
			Site:     check.SiteSyscallEntry,
			Key:      unix.SYS_GETPPID,
		},
	}
	var all []int
	for i := range p.Clauses {
		all = append(all, i)
	}
	prog := r.program(probes, all...)
	detach := r.raw("sys_enter", prog)
	stats, err := ebpf.EnableStats(uint32(unix.BPF_STATS_RUN_TIME))
	if err != nil {
		b.Fatal(err)
	}
	defer stats.Close()
	// Other system calls of this machine, which the program only skips, are in the mean: ours are
	// many more.
	locked(func() {
		b.ResetTimer()
		for range b.N {
			unix.RawSyscall(unix.SYS_GETPPID, 1, 2, 3)
		}
		b.StopTimer()
	})
	detach()
	s, err := prog.Stats()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(s.Runtime.Nanoseconds())/float64(s.RunCount), "ns/event")
	if s.RunCount < uint64(b.N) {
		b.Fatalf("%d runs of %d", s.RunCount, b.N)
	}
}
