package sampler

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/trace"
	"culprit/trace/tracetest"
)

// Programs of culprit itself distinguish threads by global IDs: all threads outside of the
// namespace have the same ID within it.
func TestOwnProgramsWithinANamespace(t *testing.T) {
	if feature.RawTracepoints.Have(kernel.Root{}) != nil {
		t.Skip("needs: root (BPF)")
	}
	e := tracetest.Here(t)
	if _, err := e.BTF(); err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	e.SetPIDNamespace(&check.Namespace{Level: 1, Inum: 4026532001})
	texts := map[string]string{
		"sampler": e.WithGlobalIDs(samplerText(99)),
		"kernels": e.WithGlobalIDs(kernelsText(99)),
	}
	for _, p := range []Profile{
		{Of: OnCPU, Hz: 99},
		{Of: OffCPU},
		{Of: OffCPU, Wakers: true, ByThread: true},
		{Of: RunQueue},
		{Of: RunQueue, Threads: ThreadFilter{PIDs: []int{5}, TIDs: []int{6}}},
		{Of: Locks},
	} {
		text, err := p.text(e)
		if err != nil {
			t.Fatal(err)
		}
		texts[fmt.Sprintf("%+v", p)] = text
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			if m := regexp.MustCompile(`\[tid\]|\b[pt]id != 0`).FindString(strings.ReplaceAll(text, "curthread->pid != 0", "")); m != "" {
				t.Errorf("%s in %s", m, text)
			}
			c, err := trace.Compile(trace.Script{Text: text}, e, gen.Limits{})
			if err == nil {
				var s *trace.Session
				if s, err = trace.Load(c, e); err == nil {
					s.Close()
				}
			}
			if err != nil {
				t.Errorf("%v: %s", err, text)
			}
		})
	}
}
