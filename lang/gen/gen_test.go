package gen

import (
	"encoding/binary"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"culprit/lang/check"
	"culprit/lang/ir"
)

// past is a deadline that makes reads return at once.
var past = time.Unix(1, 0) // table: a constant that Go can't express

func TestArithmetic(t *testing.T) {
	h := newHand(64).clause(tick())
	a, c := h.arg(0), h.arg(1)
	type result struct {
		mem  ir.Mem
		want func(a, b uint64) uint64
	}
	var all []result
	want := func(r ir.Reg, f func(a, b uint64) uint64) {
		m := h.global()
		h.store(m, r, 8)
		all = append(all, result{m, f})
	}
	want(h.two(ir.OpAdd, a, c, false), func(a, b uint64) uint64 { return a + b })
	want(h.two(ir.OpSub, a, c, false), func(a, b uint64) uint64 { return a - b })
	want(h.two(ir.OpMul, a, c, false), func(a, b uint64) uint64 { return a * b })
	want(h.two(ir.OpDiv, a, c, false), func(a, b uint64) uint64 { return a / b })
	want(h.two(ir.OpMod, a, c, false), func(a, b uint64) uint64 { return a % b })
	want(
		h.two(ir.OpDiv, a, c, true),
		func(a, b uint64) uint64 { return uint64(int64(a) / int64(b)) },
	)
	want(
		h.two(ir.OpMod, a, c, true),
		func(a, b uint64) uint64 { return uint64(int64(a) % int64(b)) },
	)
	want(h.two(ir.OpAnd, a, c, false), func(a, b uint64) uint64 { return a & b })
	want(h.two(ir.OpOr, a, c, false), func(a, b uint64) uint64 { return a | b })
	want(h.two(ir.OpXor, a, c, false), func(a, b uint64) uint64 { return a ^ b })
	want(h.two(ir.OpShl, a, c, false), func(a, b uint64) uint64 { return a << (b & 63) })
	want(h.two(ir.OpShr, a, c, false), func(a, b uint64) uint64 { return a >> (b & 63) })
	want(
		h.two(ir.OpShr, a, c, true),
		func(a, b uint64) uint64 { return uint64(int64(a) >> (b & 63)) },
	)
	want(h.value(ir.OpNeg, func(s *ir.Step) { s.A = a }), func(a, b uint64) uint64 { return -a })
	want(h.value(ir.OpNot, func(s *ir.Step) { s.A = a }), func(a, b uint64) uint64 { return ^a })
	want(
		h.value(ir.OpAdd, func(s *ir.Step) { s.A, s.Imm = a, 1<<40 }),
		func(a, b uint64) uint64 { return a + 1<<40 },
	)
	for _, size := range []int{1, 2, 4, 8} {
		cut := uint(64 - 8*size)
		want(
			h.value(ir.OpExtend, func(s *ir.Step) { s.A, s.Size = a, size }),
			func(a, b uint64) uint64 { return a << cut >> cut },
		)
		want(
			h.value(ir.OpExtend, func(s *ir.Step) { s.A, s.Size, s.Signed = a, size, true }),
			func(a, b uint64) uint64 { return uint64(int64(a<<cut) >> cut) },
		)
	}
	for _, signed := range []bool{false, true} {
		for c := range []func(int) bool{ir.Eq: nil, ir.Ne: nil, ir.Lt: nil, ir.Le: nil, ir.Gt: nil,
			ir.Ge: nil} {
			less := func(a, b uint64) bool { return a < b }
			if signed {
				less = func(a, b uint64) bool { return int64(a) < int64(b) }
			}
			holds := func(a, b uint64) uint64 {
				var yes bool
				switch ir.Cond(c) {
				case ir.Eq:
					yes = a == b
				case ir.Ne:
					yes = a != b
				case ir.Lt:
					yes = less(a, b)
				case ir.Le:
					yes = !less(b, a)
				case ir.Gt:
					yes = less(b, a)
				case ir.Ge:
					yes = !less(a, b)
				}
				if yes {
					return 1
				}
				return 0
			}
			want(
				h.value(
					ir.OpSet,
					func(s *ir.Step) {
						s.A, s.B, s.Cond, s.Signed = a, h.arg(1), ir.Cond(c),
							signed
					},
				),
				holds,
			)
		}
	}
	h.end()
	r := load(t, h.p, kernelHere(), Limits{})
	prog := r.program(h.f.Clause.Probes, 0)
	some := []uint64{
		0,
		1,
		2,
		7,
		63,
		64,
		255,
		1 << 31,
		1<<32 - 1,
		1 << 32,
		1<<63 - 1,
		1 << 63,
		^uint64(0),
		^uint64(6),
		0x123456789abcdef,
	}
	for _, a := range some {
		for _, b := range some {
			if b == 0 { // the intermediate form checks before it divides
				continue
			}
			r.run(prog, a, b)
			got := r.globals()
			for i, w := range all {
				if want := w.want(a, b); got[i] != want {
					t.Errorf("result %d of %#x and %#x is %#x, want %#x", i, a, b, got[i], want)
				}
			}
		}
	}
}

// TestManyValues uses many live values, which need the stack, and then scratch memory.
func TestManyValues(t *testing.T) {
	for _, n := range []int{3, 20, 60, 200} {
		h := newHand(64).clause(tick())
		sum := h.global()
		var regs []ir.Reg
		for i := range n {
			a := h.arg(i % 8)
			regs = append(regs, h.value(ir.OpMul, func(s *ir.Step) { s.A, s.Imm = a, int64(i+1) }))
		}
		acc := h.number(0)
		for _, r := range regs {
			acc = h.two(ir.OpAdd, acc, r, false)
		}
		h.store(sum, acc, 8)
		h.end()
		r := load(t, h.p, kernelHere(), Limits{})
		prog := r.program(h.f.Clause.Probes, 0)
		args := []uint64{3, 5, 7, 11, 13, 17, 19, 23}
		r.run(prog, args...)
		want := uint64(0)
		for i := range n {
			want += args[i%8] * uint64(i+1)
		}
		if got := r.globals()[0]; got != want {
			t.Errorf("%d values: %d, want %d", n, got, want)
		}
	}
}

// TestStates checks that clauses run in the order of the text, as the script's state allows, and
// that exit() ends those after it.
func TestStates(t *testing.T) {
	probe := func(name string) *check.Probe {
		return &check.Probe{ID: 1, Provider: "dtrace", Name: name, Site: check.SiteRun}
	}
	h := newHand(64)
	n := h.global()
	step := func(pr *check.Probe, by int64) {
		h.clause(pr)
		v := h.load(n, 8, false)
		v = h.value(ir.OpMul, func(s *ir.Step) { s.A, s.Imm = v, 10 })
		v = h.value(ir.OpAdd, func(s *ir.Step) { s.A, s.Imm = v, by })
		h.store(n, v, 8)
		h.end()
	}
	begin, tock, end, failed := probe("BEGIN"), tick(), probe("END"), probe("ERROR")
	step(begin, 1)
	step(tock, 2)
	h.clause(tock)
	h.do(ir.OpExit, nil)
	h.end()
	step(tock, 3)
	step(end, 4)
	step(failed, 5)
	r := load(t, h.p, kernelHere(), Limits{})
	r.state(Inactive)
	progs := []*check.Probe{begin, tock, end, failed}
	clauses := [][]int{{0}, {1, 2, 3}, {4}, {5}}
	all := func() {
		for i, pr := range progs {
			r.run(r.program([]*check.Probe{pr}, clauses[i]...))
		}
	}
	all()
	if got := r.globals()[0]; got != 15 {
		t.Errorf("inactive: %d ran, want 15", got)
	}
	r.state(Active)
	all()
	if got := r.globals()[0]; got != 15245 {
		t.Errorf("then active, which exit() ends: %d ran, want 15245", got)
	}
	if r.stateNow() != Draining {
		t.Errorf("state behind exit() is %d", r.stateNow())
	}
}

func TestRecord(t *testing.T) {
	h := newHand(64).clause(tick())
	rec := h.scratch(40)
	h.do(ir.OpBuiltinStr, func(s *ir.Step) {
		s.Which, s.Mem, s.Size = check.BuiltinProbeName, ir.Mem{
			Base: ir.InScratch,
			Off:  rec.Off + 24,
		}, 16
	})
	n := h.record(0, 40, check.Trace)
	h.do(ir.OpEmit, func(s *ir.Step) { s.N, s.Mem = n, rec })
	h.do(
		ir.OpFault,
		func(s *ir.Step) { s.Fault, s.Imm, s.At.From, s.At.To = ir.FaultDivZero, 77, 3, 8 },
	)
	r := load(t, h.p, kernelHere(), Limits{})
	before := monotonic()
	r.run(r.program(h.f.Clause.Probes, 0))
	after := monotonic()
	b := r.next()
	if at := binary.NativeEndian.Uint64(b); at < before || at > after {
		t.Errorf("written at %d, between %d and %d", at, before, after)
	}
	head := func(b []byte, number uint32) {
		t.Helper()
		if n := binary.NativeEndian.Uint32(b[8:]); n != number {
			t.Errorf("record %#x, want %#x", n, number)
		}
		if id := binary.NativeEndian.Uint32(b[12:]); id != 9 {
			t.Errorf("of probe %d, want 9", id)
		}
		if cpu := binary.NativeEndian.Uint32(b[16:]); int(cpu) >= r.k.CPUs {
			t.Errorf("on CPU %d of %d", cpu, r.k.CPUs)
		}
		if _, err := os.Stat("/proc/self/task/" +
			itoa(binary.NativeEndian.Uint32(b[20:]))); err != nil {
			t.Errorf("of a thread that is not ours: %v", err)
		}
	}
	head(b, 0)
	if got := string(b[24:40]); got != "tick-1s\x00\x00\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("text %q", got)
	}
	b = r.next()
	head(b, ir.FaultRecord)
	at := words(b[24:])
	if at[0] != uint64(ir.FaultDivZero)<<32 || at[1] != 8<<32|3 || at[2] != 77 {
		t.Errorf("fault %x", at)
	}
	r.none()
}

// TestRecordDrop checks that a full ring buffer is counted as a loss.
func TestRecordDrop(t *testing.T) {
	h := newHand(64).clause(tick())
	rec := h.scratch(1024)
	n := h.record(0, 1024, check.Trace)
	h.do(ir.OpEmit, func(s *ir.Step) { s.N, s.Mem = n, rec })
	h.end()
	r := load(t, h.p, kernelHere(), Limits{Ring: 4096})
	prog := r.program(h.f.Clause.Probes, 0)
	for range 10 {
		r.run(prog)
	}
	got := r.drops(ir.DropRecord)
	if got == 0 || got > 8 {
		t.Errorf("%d of 10 dropped", got)
	}
	for range 10 - got {
		r.next()
	}
	r.none()
}

func TestGlobalsAndSelf(t *testing.T) {
	for _, storage := range []bool{true, false} {
		h := newHand(64).clause(tick())
		g, s := h.global(), h.self()
		_ = h.self()
		seen := h.global()
		v := h.load(s, 8, true)
		h.store(seen, v, 8)
		h.branch(v, ir.Ne, 0, 2) // block 1: there was an element
		h.do(ir.OpStore, func(st *ir.Step) { st.Mem, st.Imm, st.Size = s, 0, 8 })
		h.end()
		h.block()
		w := h.arg(0)
		h.store(s, w, 8)
		h.store(g, w, 2)
		h.end()
		k := kernelHere()
		k.TaskStorage = storage && since(5, 11)
		r := load(t, h.p, k, Limits{})
		prog := r.program(h.f.Clause.Probes, 0)
		locked(func() {
			r.run(prog, 0x1234567)
			if got := r.globals(); got[0] != 0x4567 || got[1] != 0 {
				t.Errorf("storage %v: after the first run %#x", storage, got)
			}
			r.run(prog, 5)
			if got := r.globals(); got[0] != 0x4567 || got[1] != 0x1234567 {
				t.Errorf("storage %v: after the second run %#x", storage, got)
			}
			r.run(prog, 6)
			if got := r.globals(); got[0] != 6 || got[1] != 0 {
				t.Errorf("storage %v: after the third run %#x", storage, got)
			}
		})
		if n := r.drops(ir.DropDynamic); n != 0 {
			t.Errorf("%d drops", n)
		}
	}
}

func TestAggregations(t *testing.T) {
	values := []int64{
		0,
		1,
		-1,
		2,
		3,
		7,
		8,
		-8,
		100,
		1000,
		-1000,
		math.MaxInt64,
		math.MinInt64,
		1 << 40,
		-(1 << 40),
		math.MaxInt32,
		math.MinInt32,
		1e18,
	}
	for _, keyed := range []int{0, 8} {
		h := newHand(64).clause(tick())
		v, k := h.arg(0), h.arg(1)
		funcs := []int{
			h.aggregation(
				check.Count, keyed,
			), h.aggregation(check.Sum, keyed), h.aggregation(check.Min, keyed),
			h.aggregation(check.Max, keyed),
			h.aggregation(check.Avg, keyed), h.aggregation(check.Stddev, keyed),
		}
		for _, n := range funcs {
			key := ir.Mem{Reg: ir.None}
			if keyed > 0 {
				key = h.scratch(8)
				h.store(key, k, 8)
			}
			h.do(ir.OpAggregate, func(s *ir.Step) {
				s.N, s.Mem, s.A = n, key, v
				if n == 0 {
					s.A = ir.None
				}
			})
		}
		h.end()
		r := load(t, h.p, kernelHere(), Limits{})
		prog := r.program(h.f.Clause.Probes, 0)
		locked(func() {
			for _, v := range values {
				r.run(prog, uint64(v), 42)
			}
		})
		key := "\x00\x00\x00\x00"
		if keyed > 0 {
			key = "\x2a\x00\x00\x00\x00\x00\x00\x00"
		}
		var sum uint64
		var lo, hi uint64
		for _, v := range values {
			sum += uint64(v)
			l, h := square(v)
			lo += l
			if lo < l {
				hi++
			}
			hi += h
		}
		n := uint64(len(values))
		min, max := int64(math.MinInt64), int64(math.MaxInt64)
		want := [][]uint64{
			{n},
			{sum, n},
			{uint64(min), n},
			{uint64(max), n},
			{sum, n},
			{n, sum, lo, hi},
		}
		for i, a := range funcs {
			got := r.aggregated(a)[key]
			if !equal(got, want[i]) {
				t.Errorf("key of %d bytes: aggregation %d is %x, want %x", keyed, i, got, want[i])
			}
		}
	}
}

// TestDrops checks that full maps are counted as losses, and that the rest continues.
func TestDrops(t *testing.T) {
	h := newHand(64).clause(tick())
	a := h.arg(0)
	key := h.scratch(8)
	h.store(key, a, 8)
	count := h.aggregation(check.Count, 8)
	h.do(ir.OpAggregate, func(s *ir.Step) { s.N, s.Mem = count, key })
	h.p.Tables = append(h.p.Tables, ir.AssocArray{
		Var: &check.Var{Name: "a"}, Key: ir.Tuple{Size: 8}, Value: 8})
	at := h.value(ir.OpMake, func(s *ir.Step) { s.Mem = key })
	h.branch(at, ir.Ne, 0, 2)
	h.store(ir.Mem{Base: ir.InValue, Reg: at}, a, 8)
	h.do(ir.OpJump, func(s *ir.Step) { s.To = 2 })
	h.block()
	h.end()
	const capacity, runs = 16, 50
	r := load(t, h.p, kernelHere(), Limits{AggKeys: capacity, Dynamic: capacity})
	prog := r.program(h.f.Clause.Probes, 0)
	locked(func() {
		for i := range uint64(runs) {
			r.run(prog, i)
		}
	})
	got := r.aggregated(count)
	if n := r.drops(ir.DropAgg); n == 0 || n+uint64(len(got)) != runs {
		t.Errorf("%d keys and %d drops of %d", len(got), n, runs)
	}
	elements := 0
	var k, v uint64
	for it := r.maps[MapTable+"0"].Iterate(); it.Next(&k, &v); elements++ {
		if k != v {
			t.Errorf("element %d is %d", k, v)
		}
	}
	if n := r.drops(ir.DropDynamic); n == 0 || n+uint64(elements) != runs {
		t.Errorf("%d elements and %d drops of %d", elements, n, runs)
	}
}

// TestNesting checks that a firing without free scratch memory is counted as a loss, and that a
// lower one is not disturbed.
func TestNesting(t *testing.T) {
	h := newHand(64).clause(tick())
	m, seen := h.scratch(8), h.global()
	h.store(m, h.arg(0), 8)
	h.store(seen, h.load(m, 8, false), 8)
	h.end()
	const levels = 3
	r := load(t, h.p, kernelHere(), Limits{Nesting: levels})
	prog := r.program(h.f.Clause.Probes, 0)
	take := func(n uint64) { // as n firings that have not ended
		for i := range uint32(levels) {
			all := make([][]byte, r.k.CPUs)
			for c := range all {
				all[c] = make([]byte, r.maps[MapScratch].ValueSize())
				if uint64(i) < n {
					all[c][0] = 1
				}
			}
			if err := r.maps[MapScratch].Put(i, all); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range uint64(levels + 1) {
		take(n)
		r.run(prog, 100+n)
		r.run(prog, 100+n) // the first one has released its memory
		want, dropped := 100+n, uint64(0)
		if n == levels {
			want, dropped = 100+levels-1, 2
		}
		if got := r.globals()[0]; got != want {
			t.Errorf("with %d taken: %d, want %d", n, got, want)
		}
		if got := r.drops(ir.DropNested); got != dropped {
			t.Errorf("with %d taken: %d drops, want %d", n, got, dropped)
		}
	}
}

// TestTogether checks that programs running at the same time on two CPUs lose nothing.
func TestTogether(t *testing.T) {
	h := newHand(64).clause(tick())
	key := h.scratch(8)
	h.store(key, h.arg(0), 8)
	count, sum := h.aggregation(check.Count, 8), h.aggregation(check.Sum, 0)
	h.do(ir.OpAggregate, func(s *ir.Step) { s.N, s.Mem = count, key })
	h.do(ir.OpAggregate, func(s *ir.Step) { s.N, s.Mem, s.A = sum, ir.Mem{Reg: ir.None}, h.arg(1) })
	h.end()
	r := load(t, h.p, kernelHere(), Limits{})
	prog := r.program(h.f.Clause.Probes, 0)
	const workers, each = 4, 2000
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := range uint64(each) {
				r.run(prog, i%10, 3)
			}
		})
	}
	wg.Wait()
	total := uint64(0)
	for k, n := range r.aggregated(count) {
		total += n[0]
		if n[0] != workers*each/10 {
			t.Errorf("%x: %d", k, n[0])
		}
	}
	if total != workers*each {
		t.Errorf("%d of %d", total, workers*each)
	}
	if got := r.aggregated(sum)["\x00\x00\x00\x00"]; got[0] != 3*workers*each ||
		got[1] != workers*each {
		t.Errorf("sum %d", got)
	}
}
