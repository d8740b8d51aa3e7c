package gen

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// kallsyms finds functions of the kernel.
func kallsyms(t testing.TB) func(string) (uint64, uint64, error) {
	all, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Skip("needs: kernel feature kallsyms:", err)
	}
	return func(name string) (uint64, uint64, error) {
		i := bytes.Index(all, []byte(" "+name+"\n"))
		if i < 0 {
			return 0, 0, errors.New("no such function")
		}
		at := func(line []byte) uint64 {
			a, _, _ := bytes.Cut(line, []byte(" "))
			n, _ := strconv.ParseUint(string(a), 16, 64)
			return n
		}
		start := at(all[bytes.LastIndexByte(all[:i], '\n')+1:])
		for rest := all[i+1:]; len(rest) > 0; { // several may have one address
			_, rest, _ = bytes.Cut(rest, []byte("\n"))
			if next := at(rest); next > start {
				return start, next - start, nil
			}
		}
		return 0, 0, errors.New("the last function")
	}
}

// TestStack checks that equal stacks have equal numbers, that the first frame is the tracepoint's
// caller, and that caller is the next one.
func TestStack(t *testing.T) {
	probes := syscalls(check.SiteSyscallEntry, "entry")[:1]
	h := newHand(64).clause(probes...)
	count := h.aggregation(check.Count, 32)
	h.ours()
	key := h.scratch(32)
	at := func(off int) ir.Mem {
		return ir.Mem{Base: ir.InScratch, Off: key.Off + off,
			Reg: ir.None}
	}
	stack := func(space check.Space, frames, off int) {
		r := h.value(ir.OpStack, func(s *ir.Step) { s.Space, s.N = space, frames })
		h.store(at(off), r, 4)
	}
	stack(check.Kernel, 100, 0)
	stack(check.Kernel, 1, 4)
	stack(check.User, 20, 8)
	h.do(ir.OpStore, func(s *ir.Step) { s.Mem, s.Size = at(12), 4 })
	h.store(at(16), h.builtin(check.BuiltinCaller), 8)
	h.store(at(24), h.builtin(check.BuiltinStackDepth), 8)
	h.do(ir.OpAggregate, func(s *ir.Step) { s.N, s.Mem = count, key })
	h.finish()
	k := kernelHere()
	k.Symbol = kallsyms(t)
	r := load(t, h.p, k, Limits{})
	prog := r.program(probes, 0)
	calls := func() {
		for range 5 {
			unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		}
	}
	detach := r.raw("sys_enter", prog)
	locked(calls)
	detach()
	got := r.aggregated(count)
	if len(got) != 1 {
		for k, n := range got {
			w := words([]byte(k))
			t.Logf("%d: %x %x", n, r.frames(uint32(w[0])), r.frames(uint32(w[1])))
		}
		t.Fatalf("%d stacks, want 1", len(got))
	}
	for k, n := range got {
		w := words([]byte(k))
		if n[0] != 5 {
			t.Errorf("counted %d, want 5", n[0])
		}
		long, one, user := r.frames(
			uint32(w[0]),
		), r.frames(
			uint32(w[0]>>32),
		), r.frames(
			uint32(w[1]),
		)
		if len(long) < 4 || uint64(len(long)) != w[3]+1 {
			t.Errorf("stack of the kernel %x, of depth %d", long, w[3])
		}
		if w[2] != long[2] {
			t.Errorf("caller %x, of the stack %x", w[2], long[1:])
		}
		start, size, _ := r.k.Symbol("syscall_trace_enter")
		if start != 0 && long[1]-start >= size {
			t.Errorf("the first frame %x is not where the tracepoint is, %x and on", long[1], start)
		}
		if long[0] != 0 || len(one) != 2 || one[1] != long[1] {
			t.Errorf("the first frame alone %x, of %x", one, long)
		}
		if user[0] != uint64(os.Getpid()) || len(user) < 3 {
			t.Errorf("stack of the process %x", user)
		}
	}
}

// TestStackCut checks that a truncated stack is the start of the whole one, in whichever map, and
// keeps its number. When keys can't be long, the same stacks are in pieces.
func TestStackCut(t *testing.T) {
	old := Kernel{RingBuffer: true, CPUs: ebpf.MustPossibleCPU()}
	short, long := kernelHere(), old
	short.LongKeys, long.LongKeys = false, since(5, 11)
	for _, tt := range []struct {
		name string
		k    Kernel
		deep int
	}{
		{"new", kernelHere(), 60}, {"old, long keys", long, 60}, {"old", old, 60},
		{"new, deep", kernelHere(), 190}, {"new but for long keys, deep", short, 190},
		{"old, deep", old, 190}, {"old, deeper than is kept", old, 400},
	} {
		t.Run(tt.name, func(t *testing.T) { testStackCut(t, tt.k, tt.deep) })
	}
}

func testStackCut(t *testing.T, here Kernel, calls int) {
	most := []int{1, 2, 7, 8, 9, 19, 20, 21, 47, 48, 49, 62, 63, 64, 100, 125, 126, 127}
	probes := syscalls(check.SiteSyscallEntry, "entry")[:1]
	h := newHand(64).clause(probes...)
	count := h.aggregation(check.Count, 8*len(most))
	h.ours()
	key := h.scratch(8 * len(most))
	for i, n := range most {
		r := h.value(ir.OpStack, func(s *ir.Step) { s.Space, s.N = check.User, n })
		h.store(ir.Mem{Base: ir.InScratch, Off: key.Off + 8*i, Reg: ir.None}, r, 8)
	}
	h.do(ir.OpAggregate, func(s *ir.Step) { s.N, s.Mem = count, key })
	h.finish()
	r := load(t, h.p, here, Limits{Stacks: 64})
	detach := r.raw("sys_enter", r.program(probes, 0))
	locked(func() {
		for range 3 {
			deep(calls)
		}
	})
	detach()
	got := r.aggregated(count)
	if len(got) != 1 {
		t.Fatalf("%d stacks, want 1", len(got))
	}
	for k, n := range got {
		if n[0] != 3 {
			t.Errorf("counted %d, want 3", n[0])
		}
		ids := words([]byte(k))
		whole := r.frames(uint32(ids[len(most)-1]))
		if len(whole) < min(calls, 127)+1 || whole[0] != uint64(os.Getpid()) {
			t.Fatalf("the whole stack: %x", whole)
		}
		for i, n := range most {
			if cut := r.frames(uint32(ids[i])); !slices.Equal(cut, whole[:min(1+n, len(whole))]) {
				t.Errorf("the first %d: %x, of %x", n, cut, whole)
			}
		}
	}
}

// deep makes a system call n calls deep.
//
//go:noinline
func deep(n int) int {
	if n > 0 {
		return deep(n-1) + 1
	}
	unix.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	return 0
}

// frames returns a stack by its number: the process, then addresses.
func (r *running) frames(id uint32) []uint64 {
	r.t.Helper()
	for i := 0; r.maps[fmt.Sprint(MapStacks, i)] != nil; i++ {
		var inner *ebpf.Map
		if err := r.maps[fmt.Sprint(MapStacks, i)].Lookup(uint32(0), &inner); err != nil {
			r.t.Fatal(err)
		}
		defer inner.Close()
		var key []byte
		var got uint32
		it := inner.Iterate()
		for it.Next(&key, &got) {
			if got != id {
				continue
			}
			w := words(key)
			if before := PieceOf(w[0]); before != 0 {
				w = append(r.frames(before), w[1:]...)
			}
			for i := 1; i < len(w); i++ {
				if w[i] == 0 {
					for _, rest := range w[i:] {
						if rest != 0 {
							r.t.Errorf("stack %x goes on behind its end", w)
						}
					}
					return w[:i]
				}
			}
			return w
		}
	}
	r.t.Fatalf("stack %d is not there", id)
	return nil
}
