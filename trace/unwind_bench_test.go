package trace

import (
	"errors"
	"os/exec"
	"runtime"
	"testing"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace/probe"
	"culprit/trace/tracetest"
)

// BenchmarkUnwindTables loads the unwind tables of a process into the kernel each time. It reports
// the time, and the blocks and rules in the kernel.
func BenchmarkUnwindTables(b *testing.B) {
	if err := feature.RawTracepoints.Have(kernel.Root{}); err != nil {
		if errors.Is(err, measure.ErrDenied) {
			b.Skip("needs: root")
		}
		b.Skip("needs: kernel feature raw tracepoints")
	}
	if tracetest.TablesMissing(b) {
		b.Skip("needs: kernel feature bpf_task_pt_regs")
	}
	for _, command := range [][]string{{"sleep", "600"}, {"node", "-e", "setTimeout(() => {}, 600000)"}} {
		b.Run(command[0], func(b *testing.B) {
			path, err := exec.LookPath(command[0])
			if err != nil {
				b.Skip("needs: tool " + command[0])
			}
			c := exec.Command(path, command[1:]...)
			if err := c.Start(); err != nil {
				b.Fatal(err)
			}
			defer c.Wait()         //nolint:errcheck // it was killed
			defer c.Process.Kill() //nolint:errcheck // it was killed before
			for b.Loop() {
				b.StopTimer()
				env := probe.NewEnv(kernel.Root{})
				compiled, err := Compile(
					Script{
						Text:    "profile-1 { @[ustack()] = count(); }",
						Mode:    syntax.Mode{Last: syntax.PartName},
						Options: check.Options{All: map[string]string{"unwind": "tables"}},
					},
					env,
					gen.Limits{},
				)
				if err != nil {
					b.Fatal(err)
				}
				s, err := Load(compiled, env)
				if err != nil {
					b.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				b.StartTimer()
				s.PreloadUnwindTables([]int{c.Process.Pid})
				b.StopTimer()
				runtime.ReadMemStats(&after)
				if len(s.symbols.unwinder.procs) != 1 {
					b.Fatal("the process can't be looked into")
				}
				b.ReportMetric(float64(s.symbols.unwinder.tables.blocks), "blocks")
				b.ReportMetric(float64(s.symbols.unwinder.tables.blocks)*256/1024, "KiB-kernel")
				b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1024, "KiB-read")
				b.ReportMetric(float64(len(s.symbols.unwinder.tables.rule)), "rules")
				s.Close()
				env.Close()
				b.StartTimer()
			}
		})
	}
}
