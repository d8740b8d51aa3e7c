package gen

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir/irtest"

	"golang.org/x/sys/unix"
)

// TestManyClauses runs a probe with a thousand clauses, which exceed the reach of a jump: the last
// clause runs, those with false predicates do not, and the program ends correctly.
func TestManyClauses(t *testing.T) {
	needRoot(t)
	for _, n := range []int{100, 1000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var text strings.Builder
			for i := range n {
				fmt.Fprintf(
					&text,
					"BEGIN /arg0 == %d || arg1 == %d/ { x = %d; printf(\"%%d %%s\", %d, execname); }\n",
					i, i, i%7, i,
				)
			}
			fmt.Fprintf(&text, "BEGIN { printf(\"%%d\", 7); exit(3); }\n")
			p, err := irtest.Compile(text.String(), check.Options{StrSize: 64})
			if err != nil {
				t.Fatal(err)
			}
			r := load(t, p, kernelHere(), Limits{Ring: 1 << 16, AggKeys: 64})
			r.state(Inactive)
			probe := &check.Probe{ID: 1, Provider: "dtrace", Name: "BEGIN", Site: check.SiteRun}
			var all []int
			for i := range p.Clauses {
				all = append(all, i)
			}
			c, err := Assemble(p, r.k, []*check.Probe{probe}, all)
			if err != nil {
				t.Fatal(err)
			}
			prog := r.program([]*check.Probe{probe}, all...)
			m := irtest.New(p)
			m.Probe = probe
			m.Args[0], m.Args[1] = uint64(n-1), 3
			locked(func() {
				m.PID, m.TID, m.Execname = uint32(os.Getpid()), uint32(unix.Gettid()), comm(t)
				m.Fire(all...)
				r.run(prog, m.Args[0], m.Args[1])
			})
			r.compare(m)
			t.Log(len(c.Instructions), "instructions", irtest.FormatRecords(p, m.Records))
		})
	}
}

// TestIslands checks that jumps of any length, forward and back, have the same targets after
// islands are inserted.
func TestIslands(t *testing.T) {
	for _, far := range []int{10, islandReach - 1, islandReach, 40000, 150000} {
		var e emitter
		forward, back := e.label(), e.label()
		e.bind(back)
		e.mov(1, 2)
		e.ifImm(0x10, 1, 0, forward, 3)
		for range far {
			e.mov(3, 4)
		}
		e.ifImm(0x50, 1, 7, back, 3)
		e.bind(forward)
		e.mov(5, 6)
		e.exit()
		if err := e.resolve(); err != nil {
			t.Errorf("%d instructions apart: %v", far, err)
			continue
		}
		offset := e.offsets()
		index := map[int]int{}
		for i, o := range offset {
			index[o] = i
		}
		follow := func(i int) int { // the final target of the jump at i
			for hops := 0; hops < 100; hops++ {
				i = index[offset[i]+1+int(e.ins[i].Offset)]
				if e.ins[i].OpCode.JumpOp() != 0x00 || e.ins[i].OpCode.Class() != 0x05 {
					return i
				}
			}
			t.Fatal("a jump leads round in circles")
			return 0
		}
		if to := e.ins[follow(1)]; to.Dst != 5 {
			t.Errorf("%d instructions apart: forward leads to %v", far, to)
		}
		for i := range e.ins {
			if op := e.ins[i].OpCode; op.Class() == 0x05 && op.JumpOp() == 0x50 {
				if to := e.ins[follow(i)]; to.Dst != 1 {
					t.Errorf("%d instructions apart: back leads to %v", far, to)
				}
			}
		}
	}
}
