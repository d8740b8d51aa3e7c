package gen

import (
	"errors"
	"os"
	"strings"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/btf"
)

// TestProcess checks the builtins that need the kernel's types: parent, arguments, ancestry.
func TestProcess(t *testing.T) {
	types, err := btf.LoadKernelSpec()
	if err != nil {
		t.Skip("needs: kernel feature BTF")
	}
	h := newHand(512).clause(tick())
	parent, child, stranger := h.global(), h.global(), h.global()
	h.store(parent, h.builtin(check.BuiltinPPID), 8)
	progeny := func(pid int) ir.Reg {
		n := h.number(int64(pid))
		return h.value(ir.OpCall, func(s *ir.Step) { s.Sub, s.A = check.SubProgenyof, n })
	}
	h.store(child, progeny(os.Getppid()), 8)
	h.store(stranger, progeny(1<<22), 8)
	text := h.scratch(512)
	h.do(
		ir.OpBuiltinStr,
		func(s *ir.Step) { s.Which, s.Mem, s.Size = check.BuiltinExecargs, text, 512 },
	)
	to := ir.Mem{Base: ir.InGlobals, Reg: ir.None, Off: h.p.Globals}
	h.p.Globals += 512
	h.do(ir.OpCopy, func(s *ir.Step) { s.Mem, s.From, s.Size = to, text, 512 })
	h.end()
	k := kernelHere()
	k.Offset = offsets(types)
	r := load(t, h.p, k, Limits{})
	r.run(r.program(h.f.Clause.Probes, 0))
	g := make([]byte, r.maps[MapGlobals].ValueSize())
	if err := r.maps[MapGlobals].Lookup(uint32(0), &g); err != nil {
		t.Fatal(err)
	}
	if w := words(g[:24]); w[0] != uint64(os.Getppid()) || w[1] != 1 || w[2] != 0 {
		t.Errorf("parent %d, its child %d, another's %d", w[0], w[1], w[2])
	}
	line, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(strings.TrimSuffix(string(line), "\x00"), "\x00", " ")
	want = want[:min(len(want), 511)]
	if got := strings.TrimRight(string(g[to.Off:to.Off+512]), "\x00"); got != want {
		t.Errorf("arguments %q, want %q", got, want)
	}
}

// offsets finds members of structs, including those of anonymous members.
func offsets(types *btf.Spec) func(typ, member string) (int, error) {
	var find func(t btf.Type, member string) (int, bool)
	find = func(t btf.Type, member string) (int, bool) {
		s, ok := btf.UnderlyingType(t).(*btf.Struct)
		if !ok {
			return 0, false
		}
		for _, m := range s.Members {
			if m.Name == member {
				return int(m.Offset.Bytes()), true
			}
			if m.Name == "" {
				if off, ok := find(m.Type, member); ok {
					return int(m.Offset.Bytes()) + off, true
				}
			}
		}
		return 0, false
	}
	return func(typ, member string) (int, error) {
		var s *btf.Struct
		if err := types.TypeByName(typ, &s); err != nil {
			return 0, err
		}
		if off, ok := find(s, member); ok {
			return off, nil
		}
		return 0, errors.New("no such member")
	}
}
